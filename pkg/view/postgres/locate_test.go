package postgres_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view/postgres"
)

// Locate finds where a text is, and the way from there to its user: in the same table, or along foreign keys. What it says
// is a query that a view finds the text with.
func TestLocate(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	const user, mark, text = "amnesia-a-0", "amnkvdq", "The code is amnkvdq."
	for name, c := range map[string]struct {
		schema string
		want   []postgres.Place
	}{
		"in one table": {`
			CREATE TABLE chat_memory (id int, user_id text, content text, summary text);
			INSERT INTO chat_memory VALUES (1, 'amnesia-a-1', 'of another', ''), (2, 'amnesia-a-0', 'The code is amnkvdq.', 'code amnkvdq')`,
			[]postgres.Place{
				{Table: "chat_memory", Column: "content", Exact: true, Query: "SELECT user_id AS owner, content FROM chat_memory WHERE user_id = ANY($1)"},
				{Table: "chat_memory", Column: "summary", Query: "SELECT user_id AS owner, summary FROM chat_memory WHERE user_id = ANY($1)"},
			}},
		"behind two keys": {`
			CREATE TABLE "user" (id int PRIMARY KEY, "e-mail" varchar(90));
			CREATE TABLE conversation (id uuid PRIMARY KEY, owner int REFERENCES "user");
			CREATE TABLE message (id int, conversation uuid REFERENCES conversation, parts jsonb);
			INSERT INTO "user" VALUES (7, 'amnesia-a-0');
			INSERT INTO conversation VALUES ('00000000-0000-0000-0000-000000000001', 7);
			INSERT INTO message VALUES (1, '00000000-0000-0000-0000-000000000001', '[{"text": "The code is amnkvdq."}]')`,
			[]postgres.Place{{Table: "message", Column: "parts", Query: `SELECT t2."e-mail" AS owner, t0.parts FROM message AS t0 JOIN conversation AS t1 ON t1.id = t0.conversation JOIN "user" AS t2 ON t2.id = t1.owner WHERE t2."e-mail" = ANY($1)`}}},
		"of nobody": {`CREATE TABLE log (line text); INSERT INTO log VALUES ('told: The code is amnkvdq.')`,
			[]postgres.Place{{Table: "log", Column: "line"}}},
		"nowhere": {`CREATE TABLE log (line text); INSERT INTO log VALUES ('amn')`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			schema, conn := s.schema(t)
			exec1(t, conn, c.schema)
			dsn := s.dsn("app", s.Addr, schema)
			all, err := postgres.Locate(t.Context(), dsn, user, text, mark)
			check(t, err)
			var places []postgres.Place // the other tests have schemas in the same database
			for _, p := range all {
				if !strings.Contains(p.Table, ".") {
					places = append(places, p)
				}
			}
			if diff := cmp.Diff(c.want, places); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
			for _, p := range places {
				if p.Query == "" {
					continue
				}
				v, err := postgres.New(postgres.Config{Name: "v", DSN: dsn, Query: p.Query, Match: "token", Clock: clock.System()})
				check(t, err)
				seen, err := v.Find(t.Context(), []memory.Memory{{ID: 1, User: user, Text: text, Token: mark}})
				check(t, err)
				if seen[0].State != memory.Present {
					t.Errorf("%s: %s %s", p.Query, seen[0].State, seen[0].Detail)
				}
			}
		})
	}
}
