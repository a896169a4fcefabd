package chatapp

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// rounds of PBKDF2. Few, because a soak logs in all day, for every look at a page, and these are the passwords of made-up
// users; an app for people needs a thousand times as many.
const rounds = 200

// sessionLife is how long a login lasts.
const sessionLife = 30 * 24 * time.Hour

var errWrongPassword = errors.New("wrong password for this name")

// accounts signs users up and in, and makes and reads their session tokens. A token is signed with a key that lies in
// the database, so a session outlives the process.
type accounts struct {
	db  *database
	key []byte
	now func() time.Time
}

func openAccounts(ctx context.Context, db *database, now func() time.Time) (*accounts, error) {
	a := &accounts{db: db, now: now}
	err := db.write(ctx, func(tx *sql.Tx) error {
		fresh := make([]byte, 32)
		if _, err := rand.Read(fresh); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, db.bind(`INSERT INTO setting (name, value) VALUES ('session_key', ?) ON CONFLICT DO NOTHING`), fresh); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT value FROM setting WHERE name = 'session_key'`).Scan(&a.key)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the session key: %w", err)
	}
	return a, nil
}

// signIn signs a known user in and a new one up. It returns errWrongPassword when the name is another's.
func (a *accounts) signIn(ctx context.Context, name, password string) error {
	salt, hash, err := a.find(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		salt, hash, err = a.signUp(ctx, name, password)
	}
	if err != nil {
		return fmt.Errorf("reading the account: %w", err)
	}
	given, err := pbkdf2.Key(sha256.New, password, salt, rounds, len(hash))
	if err != nil {
		return err
	}
	if !hmac.Equal(given, hash) {
		return errWrongPassword
	}
	return nil
}

func (a *accounts) find(ctx context.Context, name string) (salt, hash []byte, err error) {
	err = a.db.sql.QueryRowContext(ctx, a.db.bind(`SELECT salt, hash FROM account WHERE name = ?`), name).Scan(&salt, &hash)
	return salt, hash, err
}

// signUp gives the account as it stands afterwards: when two sign up under one name at once, the first wins.
func (a *accounts) signUp(ctx context.Context, name, password string) (salt, hash []byte, err error) {
	salt = make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return nil, nil, err
	}
	if hash, err = pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size); err != nil {
		return nil, nil, err
	}
	err = a.db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, a.db.bind(`INSERT INTO account (name, salt, hash) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`), name, salt, hash)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return a.find(ctx, name)
}

// token is expiry, signature and name.
func (a *accounts) token(name string) string {
	body := binary.BigEndian.AppendUint64(nil, uint64(a.now().Add(sessionLife).Unix()))
	body = append(body, name...)
	return base64.RawURLEncoding.EncodeToString(body) + "." + base64.RawURLEncoding.EncodeToString(a.sign(body))
}

// user reads a token; ok is false when it is not ours or has expired.
func (a *accounts) user(token string) (name string, ok bool) {
	left, right, _ := strings.Cut(token, ".")
	body, err1 := base64.RawURLEncoding.DecodeString(left)
	signature, err2 := base64.RawURLEncoding.DecodeString(right)
	if err1 != nil || err2 != nil || len(body) < 9 || !hmac.Equal(signature, a.sign(body)) {
		return "", false
	}
	expiry := time.Unix(int64(binary.BigEndian.Uint64(body)), 0)
	return string(body[8:]), a.now().Before(expiry)
}

func (a *accounts) sign(body []byte) []byte {
	mac := hmac.New(sha256.New, a.key)
	mac.Write(body)
	return mac.Sum(nil)
}
