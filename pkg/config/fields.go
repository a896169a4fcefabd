package config

import (
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"amnesia/pkg/session"
)

// field is one key of a mapping and where its value goes.
type field struct {
	reflect.StructField        // Index is from the outer struct
	key                 string // as written
	owner               string // the struct that declares it
	required            bool
	from                string // of a Secret: env or file
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
	valuesType   = reflect.TypeFor[Values]()
	stepType     = reflect.TypeFor[session.Step]()
	viewType     = reflect.TypeFor[View]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// fieldsOf lists the keys of a struct, with those of its inline structs in place; of the ones that are for one kind of
// view, only those for kind. A Secret named x has the keys x_env and x_file.
func fieldsOf(t reflect.Type, kind string) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		key, options, _ := strings.Cut(tag, ",")
		if only := f.Tag.Get("kind"); !ok || key == "-" || options == "key" || only != "" && !slices.Contains(strings.Split(only, ","), kind) {
			continue
		}
		if options == "inline" {
			for _, in := range fieldsOf(f.Type, kind) {
				in.Index = append([]int{i}, in.Index...)
				out = append(out, in)
			}
			continue
		}
		_, hasDefault := f.Tag.Lookup("default")
		it := field{StructField: f, key: key, owner: t.Name(), required: options != "omitempty" && !hasDefault}
		if f.Type != secretType {
			out = append(out, it)
			continue
		}
		for _, from := range []string{"env", "file"} {
			it.key, it.from = key+"_"+from, from
			out = append(out, it)
		}
	}
	return out
}

// enum gives the only words allowed; none when all are.
func (f field) enum() []string {
	words := f.Tag.Get("enum")
	if f.owner == "Expect" && f.key == "state" { // pkg/session has no such tags
		words = "visible,hidden,enabled,disabled"
	}
	if words == "" {
		return nil
	}
	return strings.Split(words, ",")
}

// mayBeEmpty reports whether "" says something: filling a field with nothing empties it.
func (f field) mayBeEmpty() bool {
	return f.owner == "Fill" && f.key == "text" || f.owner == "Select" && f.key == "value"
}

func (f field) min() int64 {
	n, _ := strconv.ParseInt(f.Tag.Get("min"), 10, 64)
	return n
}

// keyed gives the field of a slice's elements that holds the mapping's key; ok is false for a slice that is a list.
func keyed(slice reflect.Type) (index int, ok bool) {
	t := slice.Elem()
	if t.Kind() != reflect.Struct {
		return 0, false
	}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") == ",key" {
			return i, true
		}
	}
	return 0, false
}

// isText reports whether the type reads itself from a text.
func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textType) }

// shape says in words what a value of the type is.
func shape(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration such as 10s"
	case t == valuesType, t.Kind() == reflect.Map, t.Kind() == reflect.Struct && !isText(t):
		return "a mapping (key: value)"
	case isText(t):
		return "a text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		if _, ok := keyed(t); ok {
			return "a mapping (name: …)"
		}
		return "a list"
	}
	return "a text"
}
