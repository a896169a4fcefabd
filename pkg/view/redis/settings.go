package redis

import (
	"context"
	"fmt"
)

// Settings asks Redis for settings by their names (CONFIG GET); one that it does not know is left out. The user needs the
// right +config|get, or +config before Redis 7.
func (v *View) Settings(ctx context.Context, names ...string) (map[string]string, error) {
	c, err := dial(ctx, v.opts, v.cfg.Timeout)
	if err != nil {
		return nil, fmt.Errorf("ask Redis on %s for its settings: %w", v.opts.Addr, err)
	}
	defer c.hangUp()
	for _, name := range names {
		c.ask("CONFIG", "GET", name) // several at once are new in Redis 7
	}
	err = c.send()
	out := map[string]string{}
	for range names {
		if err != nil {
			break
		}
		var name string
		err = c.texts(func(i, _ int, text []byte) {
			if i%2 == 0 {
				name = string(text)
			} else {
				out[name] = string(text)
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("ask Redis on %s for its settings (CONFIG GET): %w", v.opts.Addr, err)
	}
	return out, nil
}
