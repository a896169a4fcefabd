package redis

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzDocument: whatever encoding/json takes for JSON gives the same texts, from the same places.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{"role":"user","content":"code tok1xyz"}`, `[{"role":"model","parts":[{"text":"x"}]},["a",["b"],"c"]]`,
		`"\u0041\ud83d\ude00\ud83d x\n\\\"\/"`, `{"a":{"type":"AI","b":["c",{"d":"e"}]},"f":"g"}`, ` [ 1.5e3 , true , null , {} , [] ] `,
		`{"a":"b",}`, `["\\"]`, `["\\\""]`, `{"sender":"\u0062ot","x":"y"}`, `"`, `{`, `[`, `"\`, `{"a"`, `["\u12"]`, strings.Repeat("[", 2000),
	} {
		f.Add(s)
	}
	d := &document{}
	f.Fuzz(func(t *testing.T, text string) {
		ok := d.parse([]byte(text))
		var got []string
		d.each(func(text []byte, item int, echo bool) { // of a broken document too
			got = append(got, fmt.Sprintf("%s %t %q", d.key([]byte("k"), item), echo, text))
		})
		if !json.Valid([]byte(text)) || strings.Count(text, "[")+strings.Count(text, "{") > 900 {
			return
		}
		want, odd := texts(json.NewDecoder(strings.NewReader(text)), "k", false)
		if odd {
			return
		}
		if slices.Sort(got); !ok || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%q gives %q, want %q (%t)", text, got, want, ok)
		}
	})
}

// texts is the obvious way, by encoding/json; odd says that the document has a name with an escape or no text in UTF-8,
// of which nothing is promised.
func texts(dec *json.Decoder, key string, echo bool) (out []string, odd bool) {
	token, err := dec.Token()
	if err != nil {
		return nil, false
	}
	switch token := token.(type) {
	case string:
		return []string{fmt.Sprintf("%s %t %q", key, echo, token)}, strings.ContainsRune(token, '\ufffd')
	case json.Delim:
		if token == '[' {
			for n := 0; dec.More(); n++ {
				some, o := texts(dec, fmt.Sprintf("%s.%d", key, n), echo)
				out, odd = append(out, some...), odd || o
			}
			_, _ = dec.Token()
			return out, odd
		}
		var raw []json.RawMessage
		for dec.More() {
			name, err := dec.Token()
			var value json.RawMessage
			if err != nil || dec.Decode(&value) != nil {
				return nil, true
			}
			s, _ := name.(string)
			odd = odd || strings.ContainsAny(s, "\\\ufffd")
			var who string
			if slices.Contains(speakers, s) && json.Unmarshal(value, &who) == nil && slices.Contains(voices, strings.ToLower(who)) {
				echo = true
			}
			raw = append(raw, value)
		}
		_, _ = dec.Token()
		for _, value := range raw {
			some, o := texts(json.NewDecoder(strings.NewReader(string(value))), key, echo)
			out, odd = append(out, some...), odd || o
		}
	}
	return out, odd
}
