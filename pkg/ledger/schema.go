package ledger

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// migrations holds NNNN.sql, each from version NNNN-1 to NNNN. One that was released is never edited.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is PRAGMA application_id of a ledger: "Amne".
const applicationID = 0x416d6e65

// identify gives the version of a ledger; 0 for an empty database. Any other file is refused.
func identify(ctx context.Context, c *conn) (version int64, err error) {
	app, err := c.number(ctx, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	if version, err = c.number(ctx, "PRAGMA user_version"); err != nil {
		return 0, err
	}
	tables, err := c.number(ctx, "SELECT count(*) FROM sqlite_master")
	if err != nil {
		return 0, err
	}
	if app == 0 && version == 0 && tables == 0 {
		return 0, nil
	}
	if app != applicationID {
		return 0, refusal("the file is an SQLite database of something else — fix: give the path of an Amnesia ledger, or a new path")
	}
	newest, err := newestVersion()
	if err == nil && version > newest {
		err = refusal(fmt.Sprintf("the ledger was written by a newer Amnesia (format %d, this one knows %d) — fix: "+
			"use that version, or give a new path", version, newest))
	}
	return version, err
}

func newestVersion() (int64, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	return int64(len(files)), err
}

// migrate brings the file to the newest version, each step in a transaction of its own.
func migrate(ctx context.Context, c *conn, version int64) error {
	newest, err := newestVersion()
	if err != nil {
		return err
	}
	for version++; version <= newest; version++ {
		sql, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", version))
		if err != nil {
			return err
		}
		err = c.exec(ctx, strings.Join([]string{"BEGIN IMMEDIATE", string(sql),
			fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version), "COMMIT"}, ";\n"))
		if err != nil {
			_ = c.exec(ctx, "ROLLBACK")
			return fmt.Errorf("migrating to format %d: %w", version, err)
		}
	}
	return nil
}

// refusal is an error that already says what is wrong and how to mend it.
type refusal string

func (r refusal) Error() string { return string(r) }
