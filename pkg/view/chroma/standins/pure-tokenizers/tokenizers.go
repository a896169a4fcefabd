// Package tokenizers stands in for github.com/amikos-tech/pure-tokenizers, which loads a C library that it downloads.
// The Chroma client imports it for its default embedding function; see ../onnxruntime_go.
//
// It has the names that the client uses, and each of them says that it is not there.
package tokenizers

import "errors"

var errNotHere = errors.New("tokenizers are not in this build — fix: give the embeddings themselves")

type (
	Tokenizer           struct{}
	TokenizerOption     func()
	EncodeOption        func()
	TruncationDirection int
	TruncationStrategy  int
)

const (
	TruncationDirectionLeft TruncationDirection = iota
	TruncationDirectionRight
)

const TruncationStrategyLongestFirst TruncationStrategy = 0

// EncodeResult is what Encode would give.
type EncodeResult struct {
	IDs, TypeIDs, SpecialTokensMask, AttentionMask, Offsets []uint32
	Tokens                                                  []string
}

func FromBytes([]byte, ...TokenizerOption) (*Tokenizer, error) { return nil, errNotHere }
func FromFile(string, ...TokenizerOption) (*Tokenizer, error)  { return nil, errNotHere }

func WithTruncation(uintptr, TruncationDirection, TruncationStrategy) TokenizerOption { return nil }
func WithAddSpecialTokens() EncodeOption                                              { return nil }
func WithReturnTypeIDs() EncodeOption                                                 { return nil }
func WithReturnTokens() EncodeOption                                                  { return nil }
func WithReturnSpecialTokensMask() EncodeOption                                       { return nil }
func WithReturnAttentionMask() EncodeOption                                           { return nil }
func WithReturnOffsets() EncodeOption                                                 { return nil }

func (*Tokenizer) Encode(string, ...EncodeOption) (*EncodeResult, error) { return nil, errNotHere }
func (*Tokenizer) Decode([]uint32, bool) (string, error)                 { return "", errNotHere }
func (*Tokenizer) VocabSize() (uint32, error)                            { return 0, errNotHere }
func (*Tokenizer) Close() error                                          { return nil }
