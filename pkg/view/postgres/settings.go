package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// undefinedObject is the code for a setting that this server does not have.
const undefinedObject = "42704"

// Settings asks PostgreSQL for settings by their names (SHOW), and for what is set otherwise for a role or a database:
// such a setting has whom it is for behind its name, as in "synchronous_commit for the role app". What the server does
// not know, or does not tell the view's role, is left out.
func (v *View) Settings(ctx context.Context, names ...string) (_ map[string]string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.cfg.Timeout, fmt.Errorf("no whole answer within %s", v.cfg.Timeout))
	defer cancel()
	s := &sweep{View: v}
	defer s.close()
	if err := s.connect(ctx); err != nil {
		return nil, s.explain(ctx, err)
	}
	out := map[string]string{}
	for _, name := range names {
		rows, err := s.ask(ctx, "SHOW "+name)
		var reply *pgconn.PgError
		if errors.As(err, &reply) && (reply.Code == noPrivilege || reply.Code == undefinedObject) {
			continue
		}
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		if len(rows) == 1 && len(rows[0]) == 1 {
			out[name] = string(rows[0][0])
		}
	}
	rows, err := s.ask(ctx, `SELECT concat_ws(' in ', CASE WHEN r.oid IS NOT NULL THEN 'the role ' || r.rolname END, CASE WHEN d.oid IS NOT NULL THEN 'the database ' || d.datname END),
		unnest(s.setconfig) FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase`)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	for _, row := range rows {
		whom, set := string(row[0]), string(row[1])
		name, value, _ := strings.Cut(set, "=")
		for _, wanted := range names {
			if name == wanted && whom != "" {
				out[name+" for "+whom] = value
			}
		}
	}
	return out, nil
}

// ask runs a query without parameters. Its rows are of text.
func (s *sweep) ask(ctx context.Context, query string) ([][][]byte, error) {
	result := s.open.ExecParams(ctx, query, nil, nil, nil, nil).Read()
	return result.Rows, result.Err
}
