package app

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// redacting is a log without what redact takes out of messages, texts and errors.
type redacting struct {
	zapcore.Core
	redact func(string) string
}

func redactLog(log *zap.Logger, redact func(string) string) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return redacting{c, redact} }))
}

func (r redacting) With(fields []zapcore.Field) zapcore.Core {
	return redacting{r.Core.With(r.clean(fields)), r.redact}
}

func (r redacting) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if r.Enabled(e.Level) {
		return c.AddCore(e, r)
	}
	return c
}

func (r redacting) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message = r.redact(e.Message)
	return r.Core.Write(e, r.clean(fields))
}

func (r redacting) clean(fields []zapcore.Field) []zapcore.Field {
	out := make([]zapcore.Field, len(fields))
	for i, f := range fields {
		switch f.Type {
		case zapcore.StringType:
			f.String = r.redact(f.String)
		case zapcore.ErrorType, zapcore.StringerType:
			f = zap.String(f.Key, r.redact(fmt.Sprint(f.Interface)))
		}
		out[i] = f
	}
	return out
}

// redacted is an error that says what it says without secrets, and is still the error that it was.
type redacted struct {
	err  error
	text string
}

func redactError(err error, redact func(string) string) error {
	if err == nil {
		return nil
	}
	text := redact(err.Error())
	if text == err.Error() {
		return err
	}
	return redacted{err, text}
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.err }
