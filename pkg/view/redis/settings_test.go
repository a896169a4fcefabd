package redis_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/clock"
	"amnesia/pkg/view/redis"
)

// TestSettings: with the right to CONFIG GET settings are told, what Redis does not know is left out, and without it the
// refusal is said.
func TestSettings(t *testing.T) {
	s := startServer(t)
	app := s.client(t, 0)
	check(t, app.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	for _, right := range []string{"+config|get", "+select"} {
		check(t, app.Do(t.Context(), "ACL", "SETUSER", "amnesia", "on", ">sesame", "resetkeys", "resetchannels", "-@all", "+select", right).Err())
		v := open(t, redis.Config{Name: "redis", URL: "redis://amnesia:sesame@" + s.Addr + "/1", Key: keyForm, Clock: clock.System()})
		got, err := v.(*redis.View).Settings(t.Context(), "maxmemory-policy", "no-such-setting", "maxmemory")
		if right == "+select" {
			if err == nil || !strings.Contains(err.Error(), "NOPERM") || strings.Contains(err.Error(), "sesame") {
				t.Errorf("without the right: %v, %v", got, err)
			}
			continue
		}
		check(t, err)
		if diff := cmp.Diff(map[string]string{"maxmemory-policy": "allkeys-lru", "maxmemory": "0"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}
