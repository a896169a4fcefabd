package chroma

import (
	"context"
	"fmt"
	"slices"
)

// Settings gives the one setting that Chroma tells: its version.
func (v *View) Settings(ctx context.Context, names ...string) (map[string]string, error) {
	if !slices.Contains(names, "version") {
		return map[string]string{}, nil
	}
	ctx, cancel := v.request(ctx)
	defer cancel()
	defer v.transport.CloseIdleConnections()
	version, err := v.client.GetVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask Chroma at %s for its version: %w", v.cfg.URL, err)
	}
	return map[string]string{"version": version}, nil
}
