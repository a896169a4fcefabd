package app

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"amnesia/pkg/terminal"
)

// Console is where words go: results to Out, logs and progress to Err. Make it by NewConsole.
type Console struct {
	Out, Err io.Writer
	Progress io.Writer // to draw progress on, a terminal; nil: it is not drawn
}

// NewConsole gives a console on which nothing that a target says can do more than be read. Progress is drawn on err if
// that is a terminal.
func NewConsole(out, err io.Writer, draw bool) Console {
	c := Console{Out: terminal.Writer(out), Err: terminal.Writer(err)}
	if draw {
		c.Progress = err
	}
	return c
}

// Form is the form of results.
type Form int

const (
	Text Form = iota // for people
	JSON             // for programs
)

// logger writes to Err. Where progress is drawn the logs of ordinary events would tear it, and are left out.
func (c Console) logger(format string, quiet bool) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	enc := zapcore.NewJSONEncoder(cfg)
	if format != "json" {
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		cfg.EncodeDuration = zapcore.StringDurationEncoder
		enc = zapcore.NewConsoleEncoder(cfg)
	}
	level := zapcore.InfoLevel
	if quiet {
		level = zapcore.ErrorLevel
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(c.Err)), level))
}
