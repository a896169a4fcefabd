package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/clock"
	"amnesia/pkg/view/postgres"
	"amnesia/pkg/view/viewtest/servers"
)

// TestSettings: a role without any rights is told, with what is set for one role alone; what it may not see, or the server
// does not know, is left out.
func TestSettings(t *testing.T) {
	s := theServer(t)
	_, app := s.schema(t)
	exec1(t, app, "CREATE ROLE nobody LOGIN PASSWORD '"+servers.Password+"'")
	exec1(t, app, "CREATE ROLE hasty LOGIN")
	exec1(t, app, "ALTER ROLE hasty SET synchronous_commit = off")
	exec1(t, app, "ALTER ROLE hasty SET work_mem = '8MB'")
	t.Cleanup(func() {
		exec1(t, app, "DROP ROLE nobody")
		exec1(t, app, "DROP ROLE hasty")
	})
	v := open(t, postgres.Config{Name: "postgres", DSN: s.dsn("nobody", s.Addr, "public"), Query: perUser, Clock: clock.System()})
	got, err := v.(*postgres.View).Settings(t.Context(), "full_page_writes", "synchronous_commit", "data_directory", "no_such_setting")
	check(t, err)
	want := map[string]string{"full_page_writes": "on", "synchronous_commit": "on", "synchronous_commit for the role hasty": "off"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
