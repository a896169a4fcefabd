package chatapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisPrefix and the user make the key of a user's list.
const redisPrefix = "chat:memory:"

// redisStore keeps each user's memories in a Redis list, oldest first, each as a JSON object (redisMemory). The list
// lives for ttl after its last write, as a conversation does.
type redisStore struct {
	client  *redis.Client
	ttl     time.Duration // 0: for ever
	refresh bool          // every write prolongs the list's life, not only the first
}

type redisMemory struct {
	ID      string    `json:"id"`
	User    string    `json:"user_id"`
	Text    string    `json:"content"`
	Summary string    `json:"summary"`
	At      time.Time `json:"created_at"`
}

// openRedis asks the server whether it is there.
func openRedis(ctx context.Context, address string, ttl time.Duration, refresh bool) (*redisStore, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("opening Redis: %w", err)
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1 // a push that is sent again after a lost answer stands in the list twice
	s := &redisStore{client: redis.NewClient(options), ttl: ttl, refresh: refresh}
	if err := s.client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("opening Redis: %w — fix: let CHATAPP_REDIS_URL name a server that runs", errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *redisStore) Name() string { return RedisStore }

// Save pushes in one transaction: all or none, and never a list without its end.
func (s *redisStore) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	have := map[string][]Memory{}
	var stored []Memory
	tx := s.client.TxPipeline()
	for _, m := range ms {
		if _, read := have[m.User]; !read {
			_, old, err := s.list(ctx, redisPrefix+m.User)
			if err != nil {
				return nil, fmt.Errorf("saving to Redis: %w", err)
			}
			have[m.User] = old
		}
		if slices.ContainsFunc(have[m.User], func(old Memory) bool { return old.ID == m.ID }) {
			continue
		}
		value, err := json.Marshal(redisMemory{m.ID, m.User, m.Text, m.Summary, m.At.UTC()})
		if err != nil {
			return nil, err
		}
		stored = append(stored, m)
		have[m.User] = append(have[m.User], m)
		tx.RPush(ctx, redisPrefix+m.User, value)
		switch {
		case s.ttl == 0:
		case s.refresh:
			tx.Expire(ctx, redisPrefix+m.User, s.ttl)
		default:
			tx.ExpireNX(ctx, redisPrefix+m.User, s.ttl)
		}
	}
	if len(stored) > 0 {
		if _, err := tx.Exec(ctx); err != nil {
			return nil, fmt.Errorf("saving to Redis: %w", err)
		}
	}
	return stored, nil
}

func (s *redisStore) Delete(ctx context.Context, ms ...Memory) (deleted []string, err error) {
	byUser := map[string][]string{}
	for _, m := range ms {
		byUser[m.User] = append(byUser[m.User], m.ID)
	}
	for user, ids := range byUser {
		values, have, err := s.list(ctx, redisPrefix+user)
		if err != nil {
			return nil, fmt.Errorf("deleting from Redis: %w", err)
		}
		for i, m := range have {
			if !slices.Contains(ids, m.ID) {
				continue
			}
			if err := s.client.LRem(ctx, redisPrefix+user, 0, values[i]).Err(); err != nil {
				return deleted, fmt.Errorf("deleting from Redis: %w", err)
			}
			deleted = append(deleted, m.ID)
		}
	}
	return deleted, nil
}

func (s *redisStore) Find(ctx context.Context, q Query) ([]Memory, error) {
	keys := []string{redisPrefix + q.User}
	if q.User == "" {
		var err error
		if keys, err = s.keys(ctx); err != nil {
			return nil, fmt.Errorf("reading Redis: %w", err)
		}
	}
	var found []Memory
	for _, key := range keys {
		_, ms, err := s.list(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading Redis: %w", err)
		}
		found = append(found, ms...)
	}
	return q.pick(bare(found)), nil
}

// list gives the values of a list, as they stand there and decoded.
func (s *redisStore) list(ctx context.Context, key string) (values []string, ms []Memory, err error) {
	if values, err = s.client.LRange(ctx, key, 0, -1).Result(); err != nil {
		return nil, nil, err
	}
	ms = make([]Memory, len(values))
	for i, value := range values {
		var m redisMemory
		if err := json.Unmarshal([]byte(value), &m); err != nil {
			return nil, nil, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		ms[i] = Memory(m)
	}
	return values, ms, nil
}

// keys gives every user's key once; a scan may repeat itself (redis.io/commands/scan).
func (s *redisStore) keys(ctx context.Context) ([]string, error) {
	var keys []string
	scan := s.client.Scan(ctx, 0, redisPrefix+"*", 1000).Iterator()
	for scan.Next(ctx) {
		keys = append(keys, scan.Val())
	}
	slices.Sort(keys)
	return slices.Compact(keys), scan.Err()
}

func (s *redisStore) Close() error {
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing Redis: %w", err)
	}
	return nil
}
