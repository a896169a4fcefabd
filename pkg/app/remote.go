package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"amnesia/pkg/web"
)

// RemoteOptions say which running daemon is meant.
type RemoteOptions struct {
	Address string // host:port, or an https:// address
	Token   string // empty: the one beside the ledger, if there is one
	Ledger  string
	Form    Form
}

// StatusOf asks a running daemon what it is doing.
func StatusOf(ctx context.Context, c Console, o RemoteOptions) error {
	return o.ask(c, func(cl web.Client) (web.Status, error) { return cl.Status(ctx) })
}

// Pause has a running daemon hold back every fault, until Resume.
func Pause(ctx context.Context, c Console, o RemoteOptions, reason string) error {
	return o.ask(c, func(cl web.Client) (web.Status, error) { return cl.Pause(ctx, reason) })
}

// Resume ends a pause, or a halt.
func Resume(ctx context.Context, c Console, o RemoteOptions) error {
	return o.ask(c, func(cl web.Client) (web.Status, error) { return cl.Resume(ctx) })
}

// Inject asks a running daemon for a fault in its next cycle; service is empty for crash_all.
func Inject(ctx context.Context, c Console, o RemoteOptions, kind, service string) error {
	return o.ask(c, func(cl web.Client) (web.Status, error) {
		return cl.Inject(ctx, web.Ask{Kind: kind, Service: service})
	})
}

// ask asks, and prints the status that comes back.
func (o RemoteOptions) ask(c Console, do func(web.Client) (web.Status, error)) error {
	cl := web.Client{Address: o.Address, Token: o.Token}
	if cl.Token == "" {
		t, err := readToken(tokenFile(o.Ledger))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the daemon's token: %w", err)
		}
		cl.Token = t
	}
	st, err := do(cl)
	if err != nil {
		return err
	}
	if o.Form == JSON {
		return writeJSON(c.Out, st)
	}
	return writeStatus(c.Out, st)
}

// writeStatus prints a status for people.
func writeStatus(w io.Writer, st web.Status) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	faults := "armed"
	if !st.Armed {
		faults = "only announced (not armed)"
	}
	for _, h := range st.Held {
		fmt.Fprintf(t, "faults\theld back (%s): %s\n", h.Reason, h.Why)
	}
	if len(st.Held) == 0 {
		fmt.Fprintf(t, "faults\t%s, the next one no sooner than %s\n", faults, st.Next.UTC().Format(time.RFC3339))
	}
	if a := st.Asked; a != nil {
		fmt.Fprintf(t, "asked for\t%s, in the next cycle\n", strings.TrimSpace(a.Kind+" "+a.Service))
	}
	if c := st.Cycle; c != nil {
		control := map[bool]string{true: ", a control without a fault"}[c.Control]
		fmt.Fprintf(t, "cycle\t%d%s: %s since %s\n", c.N, control, c.Phase, c.Since.UTC().Format(time.RFC3339))
	}
	if st.ToRead > 0 {
		fmt.Fprintf(t, "to read\t%d memories again in this cycle, which count as unverified below until then\n", st.ToRead)
	}
	fmt.Fprintf(t, "daemon\trun %s, version %s\n\n", st.Run, cmp.Or(st.Version, "unknown"))
	t.Flush()
	if err := st.Summary.Write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}
