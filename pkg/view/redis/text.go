package redis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/ohler55/ojg/oj"

	"amnesia/pkg/view"
)

// text takes one text that a key holds. What reads as a JSON object, list or string is looked through. Texts with the
// same key are one record; without one each text is a record.
func (c *cursor) text(key, text string) {
	c.note(text)
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, `"`) {
		if doc, err := oj.ParseString(text); err == nil {
			c.walk(cmp.Or(key, strconv.Itoa(c.read)), doc, false)
			return
		}
	}
	c.walk(key, text, false)
}

// note counts a record, and keeps the first.
func (c *cursor) note(record any) {
	if c.read++; c.read == 1 {
		c.first = record
	}
}

// walk gives every text of a document. All of one list item are one record, and what an assistant says is an echo.
func (c *cursor) walk(key string, v any, echo bool) {
	switch v := v.(type) {
	case string:
		if echo {
			c.Echo(v)
			return
		}
		c.Record(view.Record{Key: key, Text: v, TTL: c.ttl})
	case []any:
		for i, item := range v {
			c.walk(key+"."+strconv.Itoa(i), item, echo)
		}
	case map[string]any:
		echo = echo || saidByApp(v)
		for _, part := range v {
			c.walk(key, part, echo)
		}
	}
}

// speakers are the names under which chat histories say who speaks, and voices those who are not the user: the message
// formats of OpenAI, LangChain, Gemini and LlamaIndex.
var (
	speakers = []string{"role", "type", "sender", "author", "speaker"}
	voices   = []string{"assistant", "ai", "aimessagechunk", "bot", "chatbot", "model", "agent", "system", "developer", "tool", "function"}
)

func saidByApp(message map[string]any) bool {
	return slices.ContainsFunc(speakers, func(name string) bool {
		who, ok := message[name].(string)
		return ok && slices.Contains(voices, strings.ToLower(who))
	})
}
