package gate

import (
	"os/exec"
	"strings"
	"testing"
)

const (
	measuredSource = `source /home/a/.claude/shell-snapshots/snapshot-bash-1794717550782-t3kmb9.sh 2>/dev/null || true && `
	measuredPieces = `{ \builtin shopt -u extglob || \builtin setopt NO_EXTENDED_GLOB NO_BARE_GLOB_QUAL NO_BRACE_CCL NO_MAGIC_EQUAL_SUBST; } >/dev/null 2>&1 || true && ` +
		`{ \builtin unalias -- 'which'; \builtin unset -f -- 'which'; } >/dev/null 2>&1 || true && ` +
		`{ \builtin unalias -- 'unsetenv'; \builtin unset -f -- 'unsetenv'; } >/dev/null 2>&1 || true && `
	measuredOld = `{ case "${BASH_VERSINFO-}" in '2'|'3') \builtin printf '%s\n' '__CLAUDE_CODE_DID_NOT_RUN_BASH_TOO_OLD='"${BASH_VERSION-}" >&2; \builtin exit 126; \exit 126;; esac; } && `
	measuredEnd = ` && pwd -P >| /tmp/claude-8b13-cwd`
)

// wrapped is a command as the CLI hands it to its shell.
func wrapped(command string) string {
	return measuredSource + measuredPieces + `eval ` + quote(command) + ` < /dev/null` + measuredEnd
}

func TestTheShapesOfTheCLIAreTakenApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, command string }{
		"plain":         {wrapped("ls -l"), "ls -l"},
		"bare word":     {measuredSource + measuredPieces + `eval ls < /dev/null` + measuredEnd, "ls"},
		"apostrophes":   {measuredSource + measuredPieces + `eval 'echo '"'"'it'"'"'' < /dev/null` + measuredEnd, "echo 'it'"},
		"its own input": {measuredSource + measuredPieces + "eval 'cat <<'\"'\"'E'\"'\"'\na\\b\nE'" + measuredEnd, "cat <<'E'\na\\b\nE"},
		"newline":       {wrapped("ls -l\n"), "ls -l\n"},
		"old bash":      {measuredOld + wrapped("echo `date`"), "echo `date`"},
		"older bash":    {strings.Replace(measuredOld, `'3'`, `'3'|'4'`, 1) + wrapped("ls"), "ls"},
		"no snapshot":   {measuredPieces + `eval ls < /dev/null` + measuredEnd, "ls"},
		"nothing else":  {`eval ls` + measuredEnd, "ls"},
		"quoted paths": {
			`source '/h/with sp'"'"'ace/shell-snapshots/snapshot-bash-1-a.sh' 2>/dev/null || true && eval ls < /dev/null && pwd -P >| '/t/with sp'"'"'ace/claude-8b13-cwd'`, "ls",
		},
		"the shape inside": {wrapped(wrapped("ls")), wrapped("ls")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, ok := takeApart(c.text)
			if !ok || o.command != c.command {
				t.Fatalf("%t %q", ok, o.command)
			}
			again, ok := takeApart(o.with(c.command))
			if !ok || again.command != c.command {
				t.Errorf("put together it is %q", o.with(c.command))
			}
		})
	}
}

func TestOtherShapesAreNotTakenApart(t *testing.T) {
	t.Parallel()
	good := wrapped("ls")
	for name, text := range map[string]string{
		"empty":              "",
		"a bare command":     "ls",
		"something before":   "id; " + good,
		"something behind":   good + "; id",
		"a line behind":      good + "\nid",
		"a comment":          good + " # x",
		"two commands":       `eval ls id < /dev/null` + measuredEnd,
		"double quotes":      `eval "$(id)" < /dev/null` + measuredEnd,
		"a variable":         `eval $X < /dev/null` + measuredEnd,
		"an open quote":      `eval 'ls < /dev/null` + measuredEnd,
		"a backslash":        `eval l\s < /dev/null` + measuredEnd,
		"a glob":             `eval l* < /dev/null` + measuredEnd,
		"no word":            `eval  < /dev/null` + measuredEnd,
		"other input":        `eval ls < /etc/passwd` + measuredEnd,
		"other snapshot":     `source /tmp/evil.sh 2>/dev/null || true && eval ls < /dev/null` + measuredEnd,
		"snapshot elsewhere": `source /tmp/snapshot-bash-1-a.sh 2>/dev/null || true && eval ls < /dev/null` + measuredEnd,
		"relative snapshot":  `source shell-snapshots/snapshot-bash-1-a.sh 2>/dev/null || true && eval ls < /dev/null` + measuredEnd,
		"other file":         `eval ls && pwd -P >| /etc/passwd`,
		"relative file":      `eval ls && pwd -P >| claude-8b13-cwd`,
		"other unalias":      strings.Replace(good, "'unsetenv'; ", "'unsetenv'; id; ", 1),
		"other glob option":  strings.Replace(good, "NO_BRACE_CCL", "$(id)", 1),
		"other version":      strings.Replace(measuredOld, `'3'`, `'3'|*`, 1) + good,
		"without pwd":        `eval ls < /dev/null`,
		"or":                 `eval ls || pwd -P >| /tmp/claude-8b13-cwd`,
		"exit":               `\builtin exit 126`,
	} {
		if o, ok := takeApart(text); ok {
			t.Errorf("%s: taken apart as %+v", name, o)
		}
	}
}

func TestQuotedWordsMeanToBashWhatTheyMeanHere(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "ls", "it's", `a"b`, "'", "''", "a\nb", `\`, "$HOME `id` !x *", "é"} {
		out, err := exec.CommandContext(t.Context(), "/bin/bash", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is %q to bash: %v", word, out, err)
		}
		if got, rest, ok := cutWord(quote(word)); !ok || rest != "" || got != word {
			t.Errorf("%q is %q, %q here", word, got, rest)
		}
	}
}
