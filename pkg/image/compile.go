package image

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// compiler makes the codec of a type and of all that it is made of, and writes their layout down on the way.
type compiler struct {
	codecs map[reflect.Type]codec
	layout bytes.Buffer
}

var timeType = reflect.TypeFor[time.Time]()

// codec gives the codec of a type. One that is being made is given as it is: types refer to themselves.
func (m *compiler) codec(t reflect.Type) (codec, error) {
	fmt.Fprintf(&m.layout, "%s.%s %s %d ", t.PkgPath(), t.String(), t.Kind(), t.Size())
	if c, ok := m.codecs[t]; ok {
		return c, nil
	}
	if why := never(t); why != "" {
		return nil, fmt.Errorf("%s %s, and so is in no image — fix: keep it apart from what has one", t, why)
	}
	if t == timeType {
		c := &instant{}
		m.codecs[t] = c
		return c, nil
	}
	if c, ok := numbers[t.Kind()]; ok {
		m.codecs[t] = c
		return c, nil
	}
	var err error
	switch t.Kind() {
	case reflect.String:
		m.codecs[t] = &text{}
	case reflect.Struct:
		c := &record{}
		m.codecs[t] = c
		m.layout.WriteString("{")
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(&m.layout, "%s %d ", f.Name, f.Offset)
			of, err := m.codec(f.Type)
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
			}
			c.fields = append(c.fields, field{f.Offset, of})
			c.size += of.least()
		}
		m.layout.WriteString("}")
	case reflect.Array:
		c := &array{n: t.Len(), size: t.Elem().Size()}
		m.codecs[t] = c
		c.elem, err = m.codec(t.Elem())
	case reflect.Pointer:
		c := &pointer{to: t.Elem()}
		m.codecs[t] = c
		c.elem, err = m.codec(t.Elem())
	case reflect.Slice:
		c := &list{of: t, size: t.Elem().Size()}
		m.codecs[t] = c
		if c.elem, err = m.codec(t.Elem()); err == nil && c.elem.least() == 0 {
			err = fmt.Errorf("%s holds nothing, and so is in no image", t)
		}
	case reflect.Map:
		c := &table{of: t}
		m.codecs[t] = c
		if c.compare, err = order(t.Key()); err != nil {
			break
		}
		if c.key, err = m.codec(t.Key()); err == nil {
			c.value, err = m.codec(t.Elem())
		}
	}
	return m.codecs[t], err
}

// never says why the values of a type are in no image; empty when they may be.
func never(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.UnsafePointer, reflect.Uintptr, reflect.Complex64, reflect.Complex128:
		return "is a " + t.Kind().String()
	}
	if p := t.PkgPath(); p == "sync" || strings.HasPrefix(p, "sync/") {
		return "is for several goroutines"
	}
	return ""
}

// order gives how the keys of a map are compared.
func order(t reflect.Type) (func(a, b reflect.Value) int, error) {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(a, b reflect.Value) int { return cmp.Compare(a.Int(), b.Int()) }, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(a, b reflect.Value) int { return cmp.Compare(a.Uint(), b.Uint()) }, nil
	case reflect.String:
		return func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }, nil
	case reflect.Bool:
		return func(a, b reflect.Value) int {
			switch {
			case a.Bool() == b.Bool():
				return 0
			case b.Bool():
				return -1
			}
			return 1
		}, nil
	case reflect.Struct:
		var fields []func(a, b reflect.Value) int
		for i := range t.NumField() {
			f, err := order(t.Field(i).Type)
			if err != nil {
				return nil, err
			}
			fields = append(fields, func(a, b reflect.Value) int { return f(a.Field(i), b.Field(i)) })
		}
		return func(a, b reflect.Value) int {
			for _, f := range fields {
				if n := f(a, b); n != 0 {
					return n
				}
			}
			return 0
		}, nil
	}
	return nil, fmt.Errorf("a map with %s for keys is in no image: they have no order", t)
}

// instant is a time.Time, whose place points to what the program holds of it. It keeps what encoding/json would.
type instant struct{}

func (*instant) encode(e *encoder, p unsafe.Pointer) {
	b, err := (*time.Time)(p).MarshalBinary()
	if err != nil && e.err == nil {
		e.err = err
	}
	e.bytes(string(b))
}

func (*instant) decode(d *decoder, p unsafe.Pointer) {
	if b := d.bytes(); d.err == nil && (*time.Time)(p).UnmarshalBinary(b) != nil {
		d.fail()
	}
}

func (*instant) least() int { return 1 }
