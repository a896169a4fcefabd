// Package image turns plain data, as a graph of Go values, into bytes and back, so that what took long to make need not
// be made again.
//
// It goes by the types alone: every field is in an image, unexported ones too, and none can be forgotten. A type with a
// field that cannot be in one (functions, channels, interfaces, locks) has no images. Pointers, maps and slices that were
// the same are the same again, and a circle of them is no trouble. Not kept are the capacity of a slice, and that one
// pointer or slice lies within what another one holds.
//
// An image begins with a fingerprint of the complete layout of its types, and is read back into no others. Equal values
// have equal images: the entries of a map are in the order of their keys.
package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"sync"
	"unsafe"
)

// ErrLayout says that an image was made of other types.
var ErrLayout = errors.New("the image is of other types")

// ErrTooLarge says that an image would be larger than it may be.
var ErrTooLarge = errors.New("the image would be too large")

// errBroken says that bytes are no image.
var errBroken = errors.New("the image is broken")

// Encode writes the image of what a pointer points to. It stops with ErrTooLarge when it has come to more bytes than most,
// and keeps in memory what it needs to tell which strings and pointers are the same. Nobody may change the value meanwhile.
func Encode(w io.Writer, pointer any, most int64) error {
	v, c, err := of(pointer)
	if err != nil {
		return err
	}
	e := &encoder{w: w, left: most, strings: map[string]uint64{"": 0}, shared: map[identity]uint64{}}
	e.buf = append(e.buf, c.layout[:]...)
	c.root.encode(e, v.UnsafePointer())
	e.flush()
	return e.err
}

// Decode makes what a pointer points to what it was when the image was made. After an error it is as it was.
func Decode(data []byte, pointer any) error {
	v, c, err := of(pointer)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(data, c.layout[:]) {
		return ErrLayout
	}
	d := &decoder{data: data[len(c.layout):], strings: []string{""}}
	made := reflect.New(v.Type().Elem())
	c.root.decode(d, made.UnsafePointer())
	if d.err == nil && len(d.data) > 0 {
		d.err = errBroken
	}
	if d.err == nil {
		v.Elem().Set(made.Elem())
	}
	return d.err
}

func of(pointer any) (v reflect.Value, c *compiled, err error) {
	v = reflect.ValueOf(pointer)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return v, nil, fmt.Errorf("an image is made of what a pointer points to, and this is a %T", pointer)
	}
	c, err = compile(v.Type().Elem())
	return v, c, err
}

// compiled is how a type is written and read.
type compiled struct {
	root   codec
	layout [sha256.Size]byte
}

var cache sync.Map // of compiled by reflect.Type: types never change

func compile(t reflect.Type) (*compiled, error) {
	if c, ok := cache.Load(t); ok {
		return c.(*compiled), nil
	}
	m := &compiler{codecs: map[reflect.Type]codec{}}
	root, err := m.codec(t)
	if err != nil {
		return nil, err
	}
	c, _ := cache.LoadOrStore(t, &compiled{root, sha256.Sum256(m.layout.Bytes())})
	return c.(*compiled), nil
}

// identity tells what is shared: two pointers may be equal and of different types, such as that to a struct and that to
// its first field.
type identity struct {
	at  unsafe.Pointer
	len int // of a slice; else -1
	of  codec
}

type encoder struct {
	w       io.Writer
	buf     []byte
	left    int64
	err     error
	strings map[string]uint64
	shared  map[identity]uint64
}

const flushAt = 32 << 10

func (e *encoder) flush() {
	if e.left -= int64(len(e.buf)); e.left < 0 && e.err == nil {
		e.err = ErrTooLarge
	}
	if e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *encoder) uint(n uint64) {
	e.buf = binary.AppendUvarint(e.buf, n)
	if len(e.buf) >= flushAt {
		e.flush()
	}
}

func (e *encoder) int(n int64) { e.uint(uint64(n<<1) ^ uint64(n>>63)) }

func (e *encoder) string(s string) {
	n, ok := e.strings[s]
	if ok {
		e.uint(n)
		return
	}
	n = uint64(len(e.strings))
	e.strings[s] = n
	e.uint(n)
	e.bytes(s)
}

func (e *encoder) bytes(s string) {
	e.uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

// share writes which of the shared ones this is, and reports whether its content has to follow.
func (e *encoder) share(id identity) bool {
	n, ok := e.shared[id]
	if !ok {
		n = uint64(len(e.shared)) + 1
		e.shared[id] = n
	}
	e.uint(n)
	return !ok && e.err == nil
}

type decoder struct {
	data    []byte
	err     error
	strings []string
	shared  []shared
}

// shared is a pointer, a map or a slice.
type shared struct {
	value reflect.Value
	of    codec
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errBroken
	}
	d.data = nil
}

func (d *decoder) uint() uint64 {
	n, used := binary.Uvarint(d.data)
	if used <= 0 {
		d.fail()
		return 0
	}
	d.data = d.data[used:]
	return n
}

func (d *decoder) int() int64 {
	n := d.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *decoder) string() string {
	switch n := d.uint(); {
	case n < uint64(len(d.strings)):
		return d.strings[n]
	case n > uint64(len(d.strings)):
		d.fail()
	}
	s := string(d.bytes())
	d.strings = append(d.strings, s)
	return s
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.data)) {
		d.fail()
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

// len reads how many values of at least one byte follow.
func (d *decoder) len() int {
	n := d.uint()
	if n > uint64(len(d.data)) {
		d.fail()
		return 0
	}
	return int(n)
}

// share reads which of the shared ones comes, and gives it; or that it is a new one. Neither is nil.
func (d *decoder) share(of codec) (v reflect.Value, isNew, isNil bool) {
	n := d.uint()
	switch {
	case d.err != nil || n == 0:
		return v, false, true
	case n == uint64(len(d.shared))+1:
		return v, true, false
	case n > uint64(len(d.shared)) || d.shared[n-1].of != of:
		d.fail()
		return v, false, true
	}
	return d.shared[n-1].value, false, false
}

// codec writes and reads the values of one type, in place.
type codec interface {
	encode(*encoder, unsafe.Pointer)
	decode(*decoder, unsafe.Pointer)
	// least is how many bytes a value takes at least.
	least() int
}

// number is any integer, float or bool, as 64 bits.
type number struct {
	get func(unsafe.Pointer) int64
	set func(unsafe.Pointer, int64) bool
}

func (c *number) encode(e *encoder, p unsafe.Pointer) { e.int(c.get(p)) }
func (c *number) decode(d *decoder, p unsafe.Pointer) {
	if !c.set(p, d.int()) {
		d.fail()
	}
}
func (*number) least() int { return 1 }

func integer[T int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64]() *number {
	return &number{
		func(p unsafe.Pointer) int64 { return int64(*(*T)(p)) },
		func(p unsafe.Pointer, n int64) bool { *(*T)(p) = T(n); return int64(T(n)) == n },
	}
}

// numbers are the codecs of the kinds that are one.
var numbers = map[reflect.Kind]*number{
	reflect.Int: integer[int](), reflect.Int8: integer[int8](), reflect.Int16: integer[int16](), reflect.Int32: integer[int32](),
	reflect.Int64: integer[int64](), reflect.Uint: integer[uint](), reflect.Uint8: integer[uint8](), reflect.Uint16: integer[uint16](),
	reflect.Uint32: integer[uint32](), reflect.Uint64: integer[uint64](),
	reflect.Bool: {
		func(p unsafe.Pointer) int64 {
			if *(*bool)(p) {
				return 1
			}
			return 0
		},
		func(p unsafe.Pointer, n int64) bool { *(*bool)(p) = n == 1; return n == 0 || n == 1 },
	},
	reflect.Float32: {
		func(p unsafe.Pointer) int64 { return int64(math.Float32bits(*(*float32)(p))) },
		func(p unsafe.Pointer, n int64) bool {
			*(*float32)(p) = math.Float32frombits(uint32(n))
			return int64(uint32(n)) == n
		},
	},
	reflect.Float64: {
		func(p unsafe.Pointer) int64 { return int64(math.Float64bits(*(*float64)(p))) },
		func(p unsafe.Pointer, n int64) bool { *(*float64)(p) = math.Float64frombits(uint64(n)); return true },
	},
}

type text struct{}

func (*text) encode(e *encoder, p unsafe.Pointer) { e.string(*(*string)(p)) }
func (*text) decode(d *decoder, p unsafe.Pointer) { *(*string)(p) = d.string() }
func (*text) least() int                          { return 1 }

type record struct {
	fields []field
	size   int
}

type field struct {
	offset uintptr
	codec
}

func (c *record) encode(e *encoder, p unsafe.Pointer) {
	for i := range c.fields {
		c.fields[i].encode(e, unsafe.Add(p, c.fields[i].offset))
	}
}

func (c *record) decode(d *decoder, p unsafe.Pointer) {
	for i := 0; i < len(c.fields) && d.err == nil; i++ {
		c.fields[i].decode(d, unsafe.Add(p, c.fields[i].offset))
	}
}

func (c *record) least() int { return c.size }

type array struct {
	n    int
	elem codec
	size uintptr
}

func (c *array) encode(e *encoder, p unsafe.Pointer) {
	for i := range c.n {
		c.elem.encode(e, unsafe.Add(p, uintptr(i)*c.size))
	}
}

func (c *array) decode(d *decoder, p unsafe.Pointer) {
	for i := 0; i < c.n && d.err == nil; i++ {
		c.elem.decode(d, unsafe.Add(p, uintptr(i)*c.size))
	}
}

func (c *array) least() int { return c.n * c.elem.least() }

type pointer struct {
	to   reflect.Type
	elem codec
}

func (c *pointer) encode(e *encoder, p unsafe.Pointer) {
	at := *(*unsafe.Pointer)(p)
	switch {
	case at == nil:
		e.uint(0)
	case e.share(identity{at, -1, c}):
		c.elem.encode(e, at)
	}
}

func (c *pointer) decode(d *decoder, p unsafe.Pointer) {
	v, isNew, isNil := d.share(c)
	if isNew {
		v = reflect.New(c.to)
		d.shared = append(d.shared, shared{v, c})
		c.elem.decode(d, v.UnsafePointer())
	}
	if isNil {
		*(*unsafe.Pointer)(p) = nil
		return
	}
	*(*unsafe.Pointer)(p) = v.UnsafePointer()
}

func (*pointer) least() int { return 1 }

// list is a slice. An empty one that is not nil is never shared: it may be anywhere.
type list struct {
	of   reflect.Type
	elem codec
	size uintptr
}

func (c *list) encode(e *encoder, p unsafe.Pointer) {
	v := reflect.NewAt(c.of, p).Elem()
	n := v.Len()
	switch {
	case v.IsNil():
		e.uint(0)
		return
	case n == 0:
		e.uint(1)
		return
	}
	e.uint(2)
	if !e.share(identity{v.UnsafePointer(), n, c}) {
		return
	}
	e.uint(uint64(n))
	for at := v.UnsafePointer(); n > 0 && e.err == nil; n-- {
		c.elem.encode(e, at)
		if n > 1 {
			at = unsafe.Add(at, c.size)
		}
	}
}

func (c *list) decode(d *decoder, p unsafe.Pointer) {
	to := reflect.NewAt(c.of, p).Elem()
	switch d.uint() {
	case 0:
		to.SetZero()
		return
	case 1:
		to.Set(reflect.MakeSlice(c.of, 0, 0))
		return
	case 2:
	default:
		d.fail()
	}
	v, isNew, isNil := d.share(c)
	if isNil {
		d.fail()
		return
	}
	if isNew {
		n := d.len()
		if n > len(d.data)/c.elem.least() {
			d.fail()
			return
		}
		v = reflect.MakeSlice(c.of, n, n)
		d.shared = append(d.shared, shared{v, c})
		for i := 0; i < n && d.err == nil; i++ {
			c.elem.decode(d, v.Index(i).Addr().UnsafePointer())
		}
	}
	to.Set(v)
}

func (*list) least() int { return 1 }

type table struct {
	of         reflect.Type
	key, value codec
	compare    func(a, b reflect.Value) int
}

func (c *table) encode(e *encoder, p unsafe.Pointer) {
	v := reflect.NewAt(c.of, p).Elem()
	if v.IsNil() {
		e.uint(0)
		return
	}
	if !e.share(identity{v.UnsafePointer(), -1, c}) {
		return
	}
	e.uint(uint64(v.Len()))
	keys := reflect.MakeSlice(reflect.SliceOf(c.of.Key()), v.Len(), v.Len())
	order := make([]reflect.Value, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		k := keys.Index(len(order))
		k.SetIterKey(it)
		order = append(order, k)
	}
	slices.SortFunc(order, c.compare)
	value := reflect.New(c.of.Elem()).Elem()
	for _, k := range order {
		if e.err != nil {
			return
		}
		value.Set(v.MapIndex(k))
		c.key.encode(e, k.Addr().UnsafePointer())
		c.value.encode(e, value.Addr().UnsafePointer())
	}
}

func (c *table) decode(d *decoder, p unsafe.Pointer) {
	to := reflect.NewAt(c.of, p).Elem()
	v, isNew, isNil := d.share(c)
	if isNil {
		to.SetZero()
		return
	}
	if isNew {
		n := d.len()
		v = reflect.MakeMapWithSize(c.of, n)
		d.shared = append(d.shared, shared{v, c})
		key, value := reflect.New(c.of.Key()).Elem(), reflect.New(c.of.Elem()).Elem()
		for i := 0; i < n && d.err == nil; i++ {
			key.SetZero()
			value.SetZero()
			c.key.decode(d, key.Addr().UnsafePointer())
			c.value.decode(d, value.Addr().UnsafePointer())
			v.SetMapIndex(key, value)
		}
		if v.Len() != n {
			d.fail()
		}
	}
	to.Set(v)
}

func (*table) least() int { return 1 }
