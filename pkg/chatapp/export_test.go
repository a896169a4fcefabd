package chatapp

import (
	"context"
	"time"
)

// Pad makes an id.
func Pad(n int64) string { return pad(n) }

func OpenDatabase(ctx context.Context, dir string, synced bool) (Store, error) {
	return openDatabase(ctx, dir, synced)
}

func OpenPostgres(ctx context.Context, dsn string) (Store, error) { return openPostgres(ctx, dsn) }

func OpenRedis(ctx context.Context, address string, ttl time.Duration, refresh bool) (Store, error) {
	return openRedis(ctx, address, redisOptions{ttl: ttl, refresh: refresh})
}

func OpenChroma(ctx context.Context, url string, counter bool) (Store, error) {
	return openChroma(ctx, url, counter)
}

func OpenIndex(dir string) (Store, error) {
	return openVectors(vectorOptions{dir: dir, synced: true})
}
