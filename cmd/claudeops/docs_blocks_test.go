package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"claudeops/test/readme"
)

// block is a fenced block of a document. Its info string says what the test does with it; CONTRIBUTING.md describes the marks.
type block struct {
	line  int
	lang  string
	marks map[string]string
	text  string
}

func (b block) has(mark string) bool {
	_, ok := b.marks[mark]
	return ok
}

// blockMarks are the marks that a block of each language may have. The first of them that a block has says what is done with it.
var blockMarks = map[string][]string{
	"sh":   {"run", "file", "not-run", "container", "package"},
	"yaml": {"config", "file", "not-run"},
	"json": {"post", "file", "not-run"},
	"ini":  {"unit", "not-run"},
	"text": {"output"},
}

// Blocks of sh with the mark container are run by test/imagetest, those with package by the test of the packages: both are quick starts.

// runWords are further words that change how a block is run.
var runWords = []string{"exit", "eventually", "background"}

// documents are the files whose blocks are run.
func documents(t testing.TB) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []string
	for _, folder := range []string{"docs", filepath.Join("docs", "howto")} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		must(t, err)
		out = append(out, found...)
	}
	return append(out, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "examples", "README.md"),
		filepath.Join(root, "llms.txt"))
}

func readDocument(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// infoWord is a word of an info string: a name, NAME=VALUE or NAME="a longer value".
var infoWord = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)"|=(\S+))?`)

// listItem is the first line of a list item, whose further paragraphs are indented.
var listItem = regexp.MustCompile(`^([-*]|\d+\.) `)

// blocksOf reads the fenced blocks of a document, and tells what is wrong with them.
func blocksOf(text string) (out []block, wrong []string) {
	var open *block
	indent, blank, list := "", true, false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == "```":
			wrong = append(wrong, open.wrong()...)
			out, open = append(out, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(trimmed, "```"):
			indent, _, _ = strings.Cut(line, "`")
			open = newBlock(i+1, strings.TrimLeft(trimmed, "`"))
		case blank && !list && strings.HasPrefix(line, "    ") && trimmed != "":
			wrong = append(wrong, fmt.Sprintf("line %d: an indented block escapes the test; use a fence", i+1))
		}
		if open == nil && trimmed != "" && !strings.HasPrefix(line, " ") {
			list = listItem.MatchString(line)
		}
		blank = trimmed == ""
	}
	if open != nil {
		wrong = append(wrong, fmt.Sprintf("line %d: the block does not end", open.line))
	}
	return out, wrong
}

func newBlock(line int, info string) *block {
	lang, rest, _ := strings.Cut(strings.TrimSpace(info), " ")
	b := &block{line: line, lang: lang, marks: map[string]string{}}
	for _, m := range infoWord.FindAllStringSubmatch(rest, -1) {
		b.marks[m[1]] = m[2] + m[3]
	}
	return b
}

// wrong tells why a block would not be tested.
func (b block) wrong() (out []string) {
	say := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("line %d: ", b.line)+fmt.Sprintf(format, args...))
	}
	marks, ok := blockMarks[b.lang]
	if !ok {
		say("a block of %q: the test knows sh, yaml, json, ini and text", b.lang)
		return out
	}
	marked := false
	for mark, value := range b.marks {
		if (mark == "container" || mark == "package") && strings.Count(b.text, "\n") > readme.MaxLines {
			say("a quick start has at most %d lines", readme.MaxLines)
		}
		switch {
		case slices.Contains(marks, mark):
			marked = true
		case !slices.Contains(runWords, mark) || !b.has("run"):
			say("%q is not a mark for a block of %s", mark, b.lang)
		}
		if mark == "not-run" && len(value) < 5 {
			say(`give the reason: not-run="needs a key"`)
		}
	}
	if !marked && b.lang != "text" {
		say(`a block of %s needs one of the marks %s, or not-run="the reason"`, b.lang, strings.Join(marks, ", "))
	}
	if b.lang == "text" && !marked && regexp.MustCompile(`(?m)^\$? ?(claudeops|make|curl) `).MatchString(b.text) {
		say("commands in a block of text escape the test; make it a block of sh")
	}
	return out
}

// A block that nobody runs becomes false one day.
func TestDocuments_NoBlockEscapes(t *testing.T) {
	t.Parallel()
	for _, path := range documents(t) {
		if _, wrong := blocksOf(readDocument(t, path)); len(wrong) > 0 {
			t.Errorf("%s:\n  %s", path, strings.Join(wrong, "\n  "))
		}
	}
	for text, want := range map[string]string{
		"```sh\nls\n```\n":                     "needs one of the marks",
		"```\nls\n```\n":                       "the test knows",
		"```sh not-run\nls\n```\n":             "give the reason",
		"```yaml run\na: b\n```\n":             "is not a mark",
		"```text\nclaudeops status\n```\n":     "escape the test",
		"Type:\n\n    claudeops status\n":      "indented block",
		"```sh run\nls\n":                      "does not end",
		"```sh run background=yes colour\n```": "is not a mark",
		"```sh container\na\nb\nc\nd\ne\n```":  "at most 4 lines",
	} {
		if _, wrong := blocksOf(text); !strings.Contains(strings.Join(wrong, "\n"), want) {
			t.Errorf("%q: %q, want %q", text, wrong, want)
		}
	}
}

// A quick start of each kind is in the README, and nowhere else: the tests that run them look there.
func TestDocuments_QuickStartsAreInTheReadme(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"container", "package"} {
		readme.QuickStart(t, filepath.Join("..", ".."), mark)
		for _, path := range documents(t) {
			blocks, _ := blocksOf(readDocument(t, path))
			for _, b := range blocks {
				if b.has(mark) && filepath.Base(path) != "README.md" {
					t.Errorf("%s: line %d: no test runs a block with the mark %s here", path, b.line, mark)
				}
			}
		}
	}
}

// link is a link in a document to another place of this repository.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)

// Links lead to files and headings that exist.
func TestDocuments_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, path := range append(documents(t), filepath.Join("..", "..", "CHANGELOG.md")) {
		for _, m := range link.FindAllStringSubmatch(readDocument(t, path), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			at := path
			if file != "" {
				at = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s links to %s: %v", path, target, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readDocument(t, at)), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", path, target, at)
			}
		}
	}
}

// anchors are the names that GitHub gives the headings of a page.
func anchors(text string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(m[1], ""))
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}
