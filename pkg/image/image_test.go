package image

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// all has a field of every kind that can be in an image.
type all struct {
	B    bool
	I    int
	I8   int8
	I16  int16
	I32  int32
	I64  int64
	U    uint
	U8   uint8
	U16  uint16
	U32  uint32
	U64  uint64
	F32  float32
	F64  float64
	S    string
	Raw  []byte
	A    [3]inner
	L    []inner
	M    map[key]*inner
	N    map[string]map[int][]string
	At   time.Time
	None struct{}
	Set  map[int]struct{}
	Next *all

	hidden inner
}

type inner struct {
	name string
	n    *int
	f    float64
}

type key struct {
	view string
	on   bool
	n    int16
}

func image(t interface{ Fatal(...any) }, pointer any) []byte {
	var b bytes.Buffer
	if err := Encode(&b, pointer, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func drawInner(t *rapid.T) inner {
	v := inner{name: rapid.SampledFrom([]string{"", "a", "redis"}).Draw(t, "name"), f: rapid.Float64().Draw(t, "f")}
	if rapid.Bool().Draw(t, "pointed") {
		n := rapid.Int().Draw(t, "n")
		v.n = &n
	}
	return v
}

func drawAll(t *rapid.T, depth int) *all {
	a := &all{
		B: rapid.Bool().Draw(t, "b"), I: rapid.Int().Draw(t, "i"), I8: rapid.Int8().Draw(t, "i8"), I16: rapid.Int16().Draw(t, "i16"),
		I32: rapid.Int32().Draw(t, "i32"), I64: rapid.Int64().Draw(t, "i64"), U: rapid.Uint().Draw(t, "u"), U8: rapid.Uint8().Draw(t, "u8"),
		U16: rapid.Uint16().Draw(t, "u16"), U32: rapid.Uint32().Draw(t, "u32"), U64: rapid.Uint64().Draw(t, "u64"),
		F32: rapid.Float32().Draw(t, "f32"), F64: rapid.Float64().Draw(t, "f64"), S: rapid.String().Draw(t, "s"),
		Raw: rapid.SampledFrom([][]byte{nil, {}, {0, 255}}).Draw(t, "raw"), hidden: drawInner(t),
		At: time.Unix(rapid.Int64Range(-1e10, 1e10).Draw(t, "at"), 5).In(rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("", 5400)}).Draw(t, "zone")),
	}
	for i := range a.A {
		a.A[i] = drawInner(t)
	}
	for range rapid.IntRange(0, 3).Draw(t, "list") {
		a.L = append(a.L, drawInner(t))
	}
	if n := rapid.IntRange(-1, 3).Draw(t, "map"); n >= 0 {
		a.M, a.N, a.Set = map[key]*inner{}, map[string]map[int][]string{}, map[int]struct{}{}
		for i := range n {
			v := drawInner(t)
			a.M[key{v.name, i%2 == 0, int16(i)}] = &v
			a.N[v.name] = map[int][]string{i: {v.name, "x"}, -i: nil}
			a.Set[i] = struct{}{}
		}
	}
	if depth > 0 && rapid.Bool().Draw(t, "next") {
		a.Next = drawAll(t, depth-1)
	}
	return a
}

// TestRoundTrip: what comes back is equal, and has an equal image.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAll(t, 3), all{S: "of before", L: []inner{{}}, Next: &all{}}
		was := image(t, a)
		if err := Decode(was, &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, &b) {
			t.Fatalf("%+v\ncame back as\n%+v", a, &b)
		}
		if !bytes.Equal(was, image(t, &b)) {
			t.Fatal("its image is another one")
		}
	})
}

// TestEveryFieldCounts: a change of any field is a change of the image, so that none is left out.
func TestEveryFieldCounts(t *testing.T) {
	n := 1
	full := all{true, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "s", []byte{1}, [3]inner{{n: &n}}, []inner{{f: 1}}, map[key]*inner{{}: {}},
		map[string]map[int][]string{"": {1: nil}}, time.Unix(1, 0), struct{}{}, map[int]struct{}{1: {}}, &all{}, inner{name: "x"}}
	was := image(t, &full)
	for i := range reflect.TypeFor[all]().NumField() {
		name := reflect.TypeFor[all]().Field(i).Name
		if name == "None" {
			continue
		}
		less := full
		f := reflect.ValueOf(&less).Elem().Field(i)
		reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().SetZero()
		if bytes.Equal(was, image(t, &less)) {
			t.Errorf("the image does not tell whether there is a %s", name)
		}
	}
}

type shares struct {
	a, b    *inner
	l, m    []int
	x, y    map[string]int
	loop    *shares
	empty   []int
	nothing []int
}

// TestShared: what was one is one again, also in a circle.
func TestShared(t *testing.T) {
	a := &shares{a: &inner{name: "a"}, l: []int{1, 2}, x: map[string]int{"a": 1}, empty: []int{}}
	a.b, a.m, a.y, a.loop = a.a, a.l, a.x, a
	var b shares
	if err := Decode(image(t, &a.loop), &b.loop); err != nil {
		t.Fatal(err)
	}
	b = *b.loop
	b.a.name, b.l[0], b.x["b"] = "b", 3, 2
	if b.b.name != "b" || b.m[0] != 3 || len(b.y) != 2 || b.loop.loop != b.loop || b.empty == nil || b.nothing != nil {
		t.Errorf("came back as %+v", b)
	}
	other := &inner{name: "a"}
	c := shares{a: other, b: &inner{name: "a"}}
	if err := Decode(image(t, &c), &b); err != nil || b.a == b.b {
		t.Errorf("two that are equal came back as one (%v)", err)
	}
}

// TestErrorChangesNothing: what could not be read leaves the value alone.
func TestErrorChangesNothing(t *testing.T) {
	whole, b := image(t, &all{I: 1, S: "s"}), all{I: 2}
	if err := Decode(whole[:len(whole)-1], &b); err == nil || b.I != 2 || b.S != "" {
		t.Errorf("%v, and it is %+v", err, b)
	}
}

// TestLayout: an image goes into no other types, however alike.
func TestLayout(t *testing.T) {
	type v1 struct{ A, B int }
	type sub1 struct{ N int }
	was := image(t, &struct {
		V []v1
		S *sub1
	}{V: []v1{{1, 2}}})
	type v2 struct{ B, A int }
	type v3 struct{ A int }
	type v4 struct{ A, B int64 }
	type sub2 struct{ N int }
	for name, into := range map[string]any{
		"fields in another order": &struct {
			V []v2
			S *sub1
		}{},
		"a field less in the image": &struct {
			V []v3
			S *sub1
		}{},
		"another kind": &struct {
			V []v4
			S *sub1
		}{},
		"another type of the same form": &struct {
			V []v1
			S *sub2
		}{},
		"a field more": &struct {
			V []v1
			S *sub1
			N int
		}{},
	} {
		if err := Decode(was, into); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v, want %v", name, err, ErrLayout)
		}
	}
}

// TestRefused: what can be in no image is named, and where it is.
func TestRefused(t *testing.T) {
	for want, of := range map[string]any{
		".F: func() is a func": &struct{ S struct{ F func() } }{}, "C: chan int is a chan": &struct{ C chan int }{},
		"E: error is a interface": &struct{ E []error }{}, "M: sync.Mutex is for several goroutines": &struct{ M sync.Mutex }{},
		"N: atomic.Int64 is for several goroutines": &struct{ N atomic.Int64 }{}, "have no order": &struct{ K map[*int]bool }{},
		"what a pointer points to": all{}, "holds nothing": &struct{ L []struct{} }{},
	} {
		if err := Encode(io.Discard, of, math.MaxInt64); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", of, err, want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	of := make([]int64, 1<<20)
	var b bytes.Buffer
	if err := Encode(&b, &of, 1<<18); !errors.Is(err, ErrTooLarge) || b.Len() > 1<<18 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	b.Reset()
	if err := Encode(&b, &of, 1<<21); err != nil {
		t.Error(err)
	}
}

// FuzzDecode: whatever the bytes are, reading them ends, with an error or a value that has an image.
func FuzzDecode(f *testing.F) {
	a := &all{S: "s", L: []inner{{}}, M: map[key]*inner{{}: {}}, Next: &all{Raw: []byte{1}}}
	whole := image(f, a)
	const head = 32
	f.Add(whole[head:])
	f.Add(whole[head : len(whole)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		var b all
		if err := Decode(append(whole[:head:head], data...), &b); err == nil {
			image(t, &b)
		}
	})
}

// TestBroken: a byte less or more is noticed.
func TestBroken(t *testing.T) {
	whole := image(t, &all{S: "s", L: []inner{{}}, Next: &all{}})
	for n := range whole {
		if err := Decode(whole[:n], new(all)); err == nil {
			t.Errorf("%d of %d bytes were read", n, len(whole))
		}
	}
	if err := Decode(append(whole, 0), new(all)); err == nil {
		t.Error("a byte too many was read")
	}
}
