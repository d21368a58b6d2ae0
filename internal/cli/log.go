package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// longestValue is how much of one value a log line shows: a list of thousands of services fills no log.
const longestValue = 2000

// newLogger returns a logger whose lines are bounded.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: cutValue}))
}

func cutValue(_ []string, a slog.Attr) slog.Attr {
	var text string
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		text = fmt.Sprint(a.Value.Any())
	default:
		return a
	}
	if len(text) <= longestValue {
		return a
	}
	a.Value = slog.StringValue(fmt.Sprintf("%s… (%d more bytes)", strings.ToValidUTF8(text[:longestValue], ""), len(text)-longestValue))
	return a
}
