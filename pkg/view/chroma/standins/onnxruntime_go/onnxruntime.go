// Package onnxruntime_go stands in for github.com/yalue/onnxruntime_go, which is C code. The Chroma client imports it
// for its default embedding function, a model that it would download; we never compute an embedding, and without the
// C code the daemon stays one static program that a Go compiler alone can build.
//
// It has the names that the client uses, and each of them says that it is not there.
package onnxruntime_go

import "errors"

var errNotHere = errors.New("the ONNX runtime is not in this build — fix: give the embeddings themselves")

type (
	Shape                  []int64
	Tensor[T any]          struct{}
	Value                  interface{ Destroy() error }
	SessionOptions         struct{}
	DynamicAdvancedSession struct{}
)

func SetSharedLibraryPath(string)  {}
func IsInitialized() bool          { return false }
func InitializeEnvironment() error { return errNotHere }
func DestroyEnvironment() error    { return nil }
func NewShape(dims ...int64) Shape { return dims }
func (*Tensor[T]) Destroy() error  { return nil }
func (*Tensor[T]) GetData() []T    { return nil }

func NewTensor[T any](Shape, []T) (*Tensor[T], error) { return nil, errNotHere }
func NewEmptyTensor[T any](Shape) (*Tensor[T], error) { return nil, errNotHere }

func NewDynamicAdvancedSession(string, []string, []string, *SessionOptions) (*DynamicAdvancedSession, error) {
	return nil, errNotHere
}

func (*DynamicAdvancedSession) Run(_, _ []Value) error { return errNotHere }
func (*DynamicAdvancedSession) Destroy() error         { return nil }
