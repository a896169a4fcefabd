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

// pushScript appends to a list the values that are not there yet, which begin with the same id, sets the list's life,
// and gives the positions of those that were new. It is one step to everyone else, and one exchange to us.
//
// KEYS: the list. ARGV: the life in milliseconds (0: for ever), 1 to prolong a life that is set, then the values.
const pushScript = `
local have = {}
for _, value in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do have[string.match(value, '^{"id":"(%x*)"')] = true end
local new = {}
for i = 3, #ARGV do
	local id = string.match(ARGV[i], '^{"id":"(%x*)"')
	if not have[id] then
		have[id] = true
		redis.call('RPUSH', KEYS[1], ARGV[i])
		new[#new + 1] = i - 3
	end
end
if ARGV[1] ~= '0' and #new > 0 and (ARGV[2] == '1' or redis.call('PTTL', KEYS[1]) < 0) then
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return new`

// Save writes each user's memories in one step.
func (s *redisStore) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	byUser := map[string][]Memory{}
	for _, m := range ms {
		byUser[m.User] = append(byUser[m.User], m)
	}
	fresh := map[string]bool{}
	for user, theirs := range byUser {
		args := []any{s.ttl.Milliseconds(), s.refresh}
		for _, m := range theirs {
			value, err := json.Marshal(redisMemory{m.ID, m.User, m.Text, m.Summary, m.At.UTC()})
			if err != nil {
				return nil, err
			}
			args = append(args, value)
		}
		added, err := s.client.Eval(ctx, pushScript, []string{redisPrefix + user}, args...).Int64Slice()
		if err != nil {
			return nil, fmt.Errorf("saving to Redis: %w", err)
		}
		for _, i := range added {
			fresh[theirs[i].ID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(ms), func(m Memory) bool { return !fresh[m.ID] }), nil
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
