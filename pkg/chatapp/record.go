package chatapp

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"
)

// The file of the vector memory is a row of frames:
//
//	length of the payload (4 bytes, little endian), CRC-32C of the payload (4 bytes), payload
//
// A payload is its kind, a key and, when it adds an entry, that entry. A frame that does not end within the file was cut
// off by a kill, and its write was never acknowledged.

const (
	recordAdd    = 'A'
	recordDelete = 'D'
	frameHead    = 8
)

var (
	errTorn    = errors.New("the frame is cut off")
	errDamaged = errors.New("the frame is damaged")
)

// checksum is CRC-32C; crc32 keeps the table.
func checksum(payload []byte) uint32 {
	return crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli))
}

// appendFrame encodes one record.
func appendFrame(dst []byte, kind byte, e entry) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	dst = append(dst, kind)
	dst = appendString(dst, e.Key)
	if kind == recordAdd {
		for _, s := range []string{e.ID, e.User, e.Text, e.Summary} {
			dst = appendString(dst, s)
		}
		dst = binary.AppendVarint(dst, e.At.UnixNano())
		dst = binary.AppendUvarint(dst, uint64(len(e.Embedding)))
		for _, f := range e.Embedding {
			dst = binary.AppendUvarint(dst, uint64(f.Dimension))
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(f.Weight))
		}
	}
	payload := dst[start+frameHead:]
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(dst[start+4:], checksum(payload))
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// readFrame decodes the first record of data and gives its length. The error is errTorn when data ends within the
// frame (or the kill left zeros or a wrong sum in the last one), errDamaged when there is more behind it.
func readFrame(data []byte) (kind byte, e entry, n int, err error) {
	if len(data) < frameHead {
		return 0, e, 0, errTorn
	}
	size := uint64(binary.LittleEndian.Uint32(data))
	if size > uint64(len(data)-frameHead) {
		return 0, e, 0, errTorn
	}
	n = frameHead + int(size)
	payload := data[frameHead:n]
	if checksum(payload) != binary.LittleEndian.Uint32(data[4:]) || size == 0 {
		if n == len(data) {
			return 0, e, 0, errTorn
		}
		return 0, e, 0, errDamaged
	}
	c := cursor{rest: payload[1:]}
	kind, e.Key = payload[0], c.string()
	if kind == recordAdd {
		e.ID, e.User, e.Text, e.Summary = c.string(), c.string(), c.string(), c.string()
		e.At = time.Unix(0, c.varint())
		e.Embedding = make([]feature, 0, min(c.uvarint(), dimensions))
		for range cap(e.Embedding) {
			e.Embedding = append(e.Embedding, feature{uint16(c.uvarint()), math.Float32frombits(c.uint32())})
		}
	}
	if c.bad || len(c.rest) > 0 || (kind != recordAdd && kind != recordDelete) {
		return 0, e, 0, errDamaged
	}
	return kind, e, n, nil
}

// cursor reads a payload; bad is set for good by the first read beyond its end.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.bad, c.rest = true, nil
		return make([]byte, 8)
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.take(math.MaxUint64)
		return 0
	}
	c.take(uint64(n))
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.rest)
	if n <= 0 {
		c.take(math.MaxUint64)
		return 0
	}
	c.take(uint64(n))
	return v
}

func (c *cursor) uint32() uint32 { return binary.LittleEndian.Uint32(c.take(4)) }
func (c *cursor) string() string { return string(c.take(c.uvarint())) }
