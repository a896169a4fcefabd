package fact

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"amnesia/pkg/memory"
)

// spoken are the fields in which others speak.
var spoken = []string{"Detail", "Error", "Line", "Reason", "Because", "Command", "Findings"}

// fill puts a text into every string of v, a list of one into every list, and a value behind every pointer.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue // of a time
			}
			fill(v.Field(i), text)
		}
	}
}

// TestRedact: of every fact, all that others said is cleaned and nothing else, and the fact itself stays as it was.
func TestRedact(t *testing.T) {
	for _, empty := range []Fact{Run{}, Contracts{}, Cycle{}, Begun{}, Settled{}, ForgetBegun{}, ForgetSettled{}, Told{}, Retired{}, Sweep{}, Step{},
		Gate{}, Death{}, Log{}, Session{}, Gap{}, Judged{}, Pause{}, Frozen{}, Muting{}} {
		v := reflect.New(reflect.TypeOf(empty)).Elem()
		fill(v, "a sesame b")
		before := fmt.Sprintf("%#v", v.Interface())
		got := Redact(v.Interface().(Fact), func(s string) string { return strings.ReplaceAll(s, "sesame", "*") })
		if after := fmt.Sprintf("%#v", v.Interface()); after != before {
			t.Errorf("%T was changed", empty)
		}
		look(t, reflect.ValueOf(got), reflect.TypeOf(got).Name(), "")
	}
	if got := Redact(Sweep{Observations: []memory.Observation{}}, strings.ToUpper).(Sweep); got.Before != nil {
		t.Errorf("a health came from nowhere: %+v", got)
	}
}

func look(t *testing.T, v reflect.Value, path, field string) {
	switch v.Kind() {
	case reflect.String:
		want := "a sesame b"
		if slices.Contains(spoken, field) {
			want = "a * b"
		}
		if v.String() != want {
			t.Errorf("%s is %q", path, v.String())
		}
	case reflect.Pointer:
		look(t, v.Elem(), path, field)
	case reflect.Slice:
		look(t, v.Index(0), path+"[]", field)
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if !v.Type().Field(i).IsExported() {
				continue
			}
			look(t, v.Field(i), path+"."+name, name)
		}
	}
}
