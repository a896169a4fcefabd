package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// named reads a mapping whose keys are names into a list that keeps their order.
func (l *loader) named(n ast.Node, v reflect.Value, path string, key int) {
	l.each(n, path, v.Type(), func(name, path string, value ast.Node) {
		if !nameForm.MatchString(name) {
			l.fail(path, fmt.Sprintf("%q is no name", name), "use small letters, digits, - and _, a letter first")
			return
		}
		e := reflect.New(v.Type().Elem()).Elem()
		e.Field(key).SetString(name)
		if _, ok := pairs(value); !ok {
			if l.wrong(value, path, e.Type()); e.Type() != viewType {
				v.Set(reflect.Append(v, e)) // known by name: what speaks of it is no mistake
			}
			return
		}
		var kind string
		if e.Type() == viewType {
			var ok bool
			if kind, ok = l.kindOf(name, path, value); !ok {
				return
			}
		}
		l.mapping(value, e, path, kind)
		if kind != "" {
			e.FieldByName("Kind").SetString(kind)
		}
		v.Set(reflect.Append(v, e))
	})
}

// kindOf finds out which settings a view may have, before they are read.
func (l *loader) kindOf(name, path string, n ast.Node) (string, bool) {
	kind, where := name, path
	entries, _ := pairs(n)
	for _, e := range entries {
		if key, _ := scalar(e.Key); key == "kind" {
			if text, ok := scalar(e.Value); ok {
				kind, where = text, join(path, "kind")
				l.at[where] = l.placeOf(e.Value)
			}
		}
	}
	k, known := kinds[kind]
	words := built(kinds, func(k viewKind) bool { return k.built })
	switch {
	case known && k.built:
		return kind, true
	case known:
		l.fail(where, fmt.Sprintf("views of kind %s are not in this build", kind),
			"remove the view, or read the same data by "+oneOf(words))
	case where == path:
		l.fail(path, fmt.Sprintf("%q is no kind of view", name), "add kind: "+oneOf(words))
	default:
		l.fail(where, fmt.Sprintf("%q is no kind of view", kind), choice(kind, words))
	}
	return "", false
}

// list reads a sequence.
func (l *loader) list(n ast.Node, v reflect.Value, path string, f field) {
	s, ok := n.(*ast.SequenceNode)
	_, isScalar := scalar(n)
	if isScalar {
		l.at[path] = l.placeOf(n)
	}
	if isScalar && f.Tag.Get("single") != "" { // one item may stand without brackets
		out := reflect.MakeSlice(v.Type(), 1, 1)
		l.decode(n, out.Index(0), path, f)
		v.Set(out)
		return
	}
	if !ok {
		l.wrong(n, path, v.Type())
		return
	}
	out := reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values))
	for i, item := range s.Values {
		where := fmt.Sprintf("%s[%d]", path, i)
		l.at[where] = l.placeOf(item)
		l.decode(item, out.Index(i), where, f)
		if v.Type().Elem() == stepType && !l.bad[where] && out.Index(i).IsZero() && !l.badBelow(where) {
			l.fail(where, "the step says nothing to do", "write "+oneOf(keysOf(stepType)))
		}
	}
	v.Set(out)
}

// badBelow reports whether something within the path was refused already.
func (l *loader) badBelow(path string) bool {
	for p := range l.bad {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

// free reads whatever stands there: the body of a request.
func (l *loader) free(n ast.Node, path string) any {
	switch x := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.MappingNode:
		out := make(map[string]any)
		l.each(n, path, nil, func(key, path string, value ast.Node) { out[key] = l.free(value, path) })
		return out
	case *ast.SequenceNode:
		out := make([]any, len(x.Values))
		for i, item := range x.Values {
			out[i] = l.free(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	case *ast.StringNode, *ast.LiteralNode:
		text, _ := scalar(n)
		l.at[path] = l.placeOf(n)
		l.texts = append(l.texts, path)
		l.text[path] = text
		return text
	case *ast.BoolNode:
		return x.Value
	case *ast.IntegerNode:
		return x.Value
	case *ast.FloatNode:
		return x.Value
	}
	l.at[path] = l.placeOf(n)
	l.fail(path, "this has no place in JSON", "write a text, a number, true, false, null, a list or a mapping")
	return nil
}
