package config

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// describe.txt says what each key means, for editors: Struct.key: text.
//
//go:embed describe.txt
var described string

// object is a JSON object; encoding/json writes it with its keys sorted.
type object = map[string]any

const (
	durationForm = `([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+|0`
	nameAllowed  = `^[a-z][a-z0-9_-]{0,62}$`
)

// Schema gives the JSON Schema (draft 2020-12) of amnesia.yaml, read off the same tags as the loader: completion and
// checks in editors. What needs more than one place of the file to decide is left to the loader.
func Schema() []byte {
	s := schema{defs: object{}, about: make(map[string]string)}
	for line := range strings.Lines(described) {
		if key, text, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			s.about[key] = text
		}
	}
	root := s.mapping(reflect.TypeFor[Config](), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "amnesia.yaml"
	root["$defs"] = s.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps, texts and numbers
	}
	return append(out, '\n')
}

type schema struct {
	defs  object
	about map[string]string // by Struct.key
}

// mapping describes the keys of a struct.
func (s *schema) mapping(t reflect.Type, kind string) object {
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(t, kind) {
		p := s.value(f.Type, f)
		if text := s.about[f.owner+"."+f.key]; text != "" {
			p["description"] = text
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			p["default"] = plain(f.Type, text)
		}
		properties[f.key] = p
		if f.required {
			required = append(required, f.key)
		}
	}
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	if t == stepType {
		o["minProperties"], o["maxProperties"] = 1, 1
	}
	return o
}

// plain gives a default as JSON has it.
func plain(t reflect.Type, text string) any {
	switch t.Kind() {
	case reflect.Bool:
		return text == "true"
	case reflect.Int:
		n, _ := strconv.Atoi(text)
		return n
	}
	return text
}

// ref describes a struct once, under $defs.
func (s *schema) ref(t reflect.Type) object {
	if _, ok := s.defs[t.Name()]; !ok {
		s.defs[t.Name()] = nil // so that a struct within itself ends
		s.defs[t.Name()] = s.mapping(t, "")
	}
	return object{"$ref": "#/$defs/" + t.Name()}
}

func (s *schema) value(t reflect.Type, f field) object {
	switch {
	case t == durationType:
		return object{"type": "string", "pattern": "^(" + durationForm + ")$"}
	case t == reflect.TypeFor[Range]():
		return object{"type": "string", "pattern": `^(` + durationForm + `)(\.\.(` + durationForm + `))?$`}
	case t == valuesType:
		source := func(key string) object {
			return object{"type": "object", "properties": object{key: object{"type": "string"}}, "required": []string{key}, "additionalProperties": false}
		}
		return object{"type": "object", "additionalProperties": object{"anyOf": []object{
			{"type": []string{"string", "number"}}, source("env"), source("file")}}}
	case t == secretType, isText(t):
		return object{"type": "string", "minLength": 1}
	case t.Kind() == reflect.Struct:
		return s.ref(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.value(t.Elem(), f)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer", "minimum": f.min()}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number", "minimum": 0}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.value(t.Elem(), f)}
	case reflect.Interface:
		return object{}
	case reflect.Slice:
		if t.Elem() == viewType {
			return s.views()
		}
		if _, ok := keyed(t); ok {
			return object{"type": "object", "propertyNames": object{"pattern": nameAllowed}, "additionalProperties": s.value(t.Elem(), f)}
		}
		list := object{"type": "array", "items": s.value(t.Elem(), f)}
		if f.Tag.Get("single") != "" {
			return object{"anyOf": []object{s.value(t.Elem(), f), list}}
		}
		return list
	}
	o := object{"type": "string"}
	if !f.mayBeEmpty() {
		o["minLength"] = 1
	}
	if words := s.words(f); words != nil {
		o["enum"] = words
	}
	return o
}

// words are those that the loader takes for a key, by its tag or by its tables.
func (s *schema) words(f field) []string {
	switch f.owner + "." + f.key {
	case "Target.engine":
		return built(engines, func(e engine) bool { return e.built })
	case "View.kind":
		return built(kinds, func(k viewKind) bool { return k.built })
	case "Fault.kind", "MayLose.on":
		return faultNames()
	}
	return f.enum()
}

// views describes the mapping of views: the keys of one depend on its kind, and its kind, unless given, on its name.
func (s *schema) views() object {
	byKind, byName := []object{}, object{}
	for _, kind := range built(kinds, func(k viewKind) bool { return k.built }) {
		def := s.mapping(viewType, kind)
		def["properties"].(object)["kind"].(object)["enum"] = []string{kind}
		s.defs["view_"+kind] = def
		ref := object{"$ref": "#/$defs/view_" + kind}
		byKind = append(byKind, object{"allOf": []object{ref, {"required": []string{"kind"}}}})
		byName[kind] = object{"if": object{"required": []string{"kind"}}, "then": object{"$ref": "#/$defs/View"}, "else": ref}
	}
	s.defs["View"] = object{"anyOf": byKind}
	return object{"type": "object", "propertyNames": object{"pattern": nameAllowed}, "properties": byName,
		"additionalProperties": object{"$ref": "#/$defs/View"}}
}
