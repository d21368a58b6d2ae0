package watch

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

func openedNotice(c ops.Cause, checks []ops.Check, now time.Time) *ops.Notice {
	level := ops.LevelWarning
	if c.Level == ops.Down {
		level = ops.LevelCritical
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Since %s, in %s:\n\n", c.Began.UTC().Format(time.RFC3339), c.Environment)
	const most = 20
	for i, k := range checks {
		if i == most {
			fmt.Fprintf(&b, "- and %d more\n", len(checks)-most)
			break
		}
		fmt.Fprintf(&b, "- **%s** is %s%s\n", literal(k.Service), k.Status, quoted(k.Error))
	}
	if len(c.Affected) > 0 {
		fmt.Fprintf(&b, "\nAlso affected: %s\n", literal(ops.Listed(c.Affected)))
	}
	b.WriteString("\nA cycle was started. You will be told when it is over, or when you are needed.\n")
	return &ops.Notice{
		Kind: ops.NoticeOpened, Level: level, Title: title(c), Body: b.String(), Environment: c.Environment, Service: c.Services[0],
		Key: "opened:" + c.Environment + ":" + c.Key, Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}

func title(c ops.Cause) string {
	text := fmt.Sprintf("Claude Ops: %s is %s", c.Services[0], c.Level)
	if n := len(c.Services) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

func resolvedNotice(c ops.Cause, how string, now time.Time) *ops.Notice {
	return &ops.Notice{
		Kind: ops.NoticeResolved, Level: ops.LevelInfo, Title: fmt.Sprintf("Claude Ops: %s has recovered", c.Services[0]),
		Body: fmt.Sprintf("%s, in %s.\n", literal(how), c.Environment), Environment: c.Environment, Service: c.Services[0],
		Key: "resolved:" + c.Environment + ":" + c.Key, Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}

// literal escapes Markdown in a text from outside.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "<", "&lt;", "!", `\!`, "#", `\#`).Replace(s)
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return ": `" + strings.ReplaceAll(s, "`", "'") + "`"
}
