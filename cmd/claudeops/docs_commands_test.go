package main_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	// span is a command in running text.
	span = regexp.MustCompile("`claudeops ([^`]+)`")
	// fenced is a block, which another test runs.
	fenced = regexp.MustCompile("(?s)\n *```.*?\n *```")
	plain  = regexp.MustCompile(`^[a-z][a-z-]*$`)
	option = regexp.MustCompile(`(?:^|\s)(--?[a-z][a-z-]*)`)
	usage  = regexp.MustCompile(`(?m)^  claudeops(.*)$`)
)

// Commands that the text of a document names exist, with the flags that it gives them.
func TestDocuments_CommandsInTextExist(t *testing.T) {
	t.Parallel()
	named := map[string]string{}
	for _, path := range documents(t) {
		for _, m := range span.FindAllStringSubmatch(fenced.ReplaceAllString(readDocument(t, path), ""), -1) {
			if m[1] != "…" && m[1] != "session-keeper" { // any command, and the name of a process
				named[m[1]] = path
			}
		}
	}
	if len(named) < 30 {
		t.Errorf("only %d commands are named", len(named))
	}
	var helps sync.Map // by command, so that each is asked once
	for text, path := range named {
		for _, problem := range unknownIn(t, &helps, text) {
			t.Errorf("%s names `claudeops %s`: %s", path, text, problem)
		}
	}
	for wrong, want := range map[string]string{"dbb check": "dbb", "db chekc": "chekc", "once --dryrun": "--dryrun", "cycles list --since": ""} {
		if got := strings.Join(unknownIn(t, &helps, wrong), "; "); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("claudeops %s: %q, want %q", wrong, got, want)
		}
	}
}

// unknownIn tells which words of a command the program does not know.
func unknownIn(t *testing.T, helps *sync.Map, text string) (out []string) {
	t.Helper()
	before, _, _ := strings.Cut(text, " -- ")
	var words []string
	for _, w := range strings.Fields(before) {
		if !plain.MatchString(w) {
			break
		}
		words = append(words, w)
	}
	help := ""
	for n := len(words); n > 0 && help == ""; n-- {
		help = helpOf(t, helps, words[:n])
	}
	m := usage.FindStringSubmatch(help)
	if m == nil {
		return []string{strings.Join(words, " ") + " is not a command"}
	}
	path := strings.Fields(m[1])
	for i, w := range words {
		if i >= len(path) || path[i] != w {
			if i == 0 || strings.Contains(help, "[command]") {
				out = append(out, w+" is not a command")
			}
			break // an argument
		}
	}
	for _, o := range option.FindAllStringSubmatch(before, -1) {
		if !slices.Contains(strings.FieldsFunc(help, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }), o[1]) {
			out = append(out, o[1]+" is not a flag")
		}
	}
	return out
}

// helpOf is the help of a command, empty where there is none.
func helpOf(t *testing.T, helps *sync.Map, words []string) string {
	t.Helper()
	key := strings.Join(words, " ")
	if text, ok := helps.Load(key); ok {
		return text.(string)
	}
	c := exec.Command(program, append(slices.Clone(words), "--help")...)
	c.Env = []string{quickExit, "HOME=" + t.TempDir()}
	text, err := c.Output()
	if err != nil {
		text = nil
	}
	helps.Store(key, string(text))
	return string(text)
}
