package redact

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// What is looked for beside the secrets of the operator. The first lines of the list explain its form.
//
//go:embed shapes.list
var list string

// macros are the abbreviations of the list.
func macros() *strings.Replacer {
	return strings.NewReplacer(
		"<h>", "[0-9a-f]", "<H>", "[0-9a-fA-F]", "<d>", "[0-9]", "<l>", "[0-9a-z]", "<U>", "[0-9A-Z]", "<B>", "[A-Z2-7]", "<A>", "[0-9A-Za-z]",
		"<w>", `[\w-]`, "<.>", `[\w.=-]`, "<~>", `[\w.=~-]`, "<s>", "[0-9A-Za-z+/=%]", "<v>", `[\w.~+/=%-]`,
		"<value>", `(?:\\*'([^'\\]+)|\\*"([^"\\]+)|([^\s"'\\|;&<>()`+"`"+`]+))`, "<quoted>", `(?:\\*'([^'\\]+)|\\*"([^"\\]+))`,
		"<open>", `(?:\\*["'])?`, "<end>", `["']?[ \t]*(?:["'),\\\r\n`+"`"+`]|$)`,
	)
}

// shapes are what the list says.
func shapes() []literal {
	out := []literal{
		{text: "_key", fold: true, mark: markToken, match: one(someKey)},
		{text: "-key", fold: true, mark: markToken, match: one(someKey)},
		{text: "-----BEGIN ", mark: markKey, match: one(privateKey)},
		{text: keyEnd, mark: markKey, match: one(endOfKey)},
	}
	expand := macros()
	section := ""
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		if head, ok := strings.CutPrefix(line, "# "); ok {
			section, _, _ = strings.Cut(head, ": ")
		} else if line != "" && !strings.HasPrefix(line, "//") {
			out = append(out, row(section, line, expand)...)
		}
	}
	return out
}

// row reads one row of the list.
func row(section, line string, expand *strings.Replacer) []literal {
	has := func(word string) bool { return slices.Contains(strings.Split(section, ", "), word) }
	mark := map[string]mark{"key": markKey, "token": markToken}
	l := literal{mark: markPassword, fold: !has("exact") && !has("programs")}
	for name, m := range mark {
		if has(name) {
			l.mark = m
		}
	}
	texts, rest, _ := strings.Cut(line, " : ")
	rest, options, _ := strings.Cut(rest, " : ")
	switch {
	case has("short"):
		l.match = one(assignedShort)
	case has("names"):
		l.match = one(assigned)
	default:
		l.fold = l.fold && !slices.Contains(strings.Fields(options), "case")
		r := readRule(rest, options, expand, l.fold, has("programs"))
		l.match = r.match
		if has("programs") {
			l.match = r.inCommand
		}
	}
	var out []literal
	for text := range strings.SplitSeq(texts, "|") {
		for _, l.text = range spellings(text, has("names") && !has("short")) {
			out = append(out, l)
		}
	}
	return out
}

// spellings are the ways a name of several words is written.
func spellings(text string, name bool) []string {
	if !name || !strings.Contains(text, "_") {
		return []string{text}
	}
	return []string{text, strings.ReplaceAll(text, "_", "-"), strings.ReplaceAll(text, "_", "")}
}

// one adapts a matcher of at most one piece.
func one(find func(s string, i, j int) (from, to int, ok bool)) func(s string, i, j int, add func(from, to int)) {
	return func(s string, i, j int, add func(from, to int)) {
		if from, to, ok := find(s, i, j); ok {
			add(from, to)
		}
	}
}

// rule is one row of the list that has a regular expression.
type rule struct {
	rest, after                    func() *regexp.Regexp // made when first used
	word, digit, mixed, any, alone bool
}

func readRule(rest, options string, expand *strings.Replacer, fold, anywhere bool) rule {
	words, after, found := strings.Cut(options, "after ")
	r := rule{word: strings.Contains(rest, "<w>") || strings.Contains(rest, "<.>")}
	for word := range strings.FieldsSeq(words) {
		r.digit, r.mixed = r.digit || word == "digit", r.mixed || word == "mixed"
		r.any, r.alone = r.any || word == "any", r.alone || word == "alone"
	}
	if found {
		r.after = ops.Pattern("(?:" + expand.Replace(after) + ")$")
	}
	rest = expand.Replace(rest)
	if fold {
		rest = "(?i)" + rest
	}
	if !anywhere {
		rest = "^(?:" + rest + ")"
	}
	r.rest = ops.Pattern(rest)
	return r
}

const (
	window      = 2048 // so much is looked at behind a text, and of a command
	windowFront = 96
)

func (r rule) match(s string, i, j int, add func(from, to int)) {
	from, ok := r.begin(s, i)
	if !ok {
		return
	}
	text := s[j:min(len(s), j+window)]
	m := r.rest().FindStringSubmatchIndex(text)
	if m == nil {
		return
	}
	for g := 2; g < len(m); g += 2 {
		if m[g] >= 0 && r.secret(text[m[g]:m[g+1]]) {
			add(j+m[g], whole(s, text, j, m[g+1]))
		}
	}
	if len(m) == 2 && (!r.digit || needDigit(text[:m[1]])) {
		add(from, whole(s, text, j, m[1]))
	}
}

// whole is where a secret ends that ends at to in a text which begins at j and may have been cut.
func whole(s, text string, j, to int) int {
	if to == len(text) {
		return run(s, j+to, func(c byte) bool { return isCredential(c) || c == '%' })
	}
	return j + to
}

// begin is where the token begins whose known text is at i.
func (r rule) begin(s string, i int) (int, bool) {
	switch {
	case r.after != nil:
		front := max(0, i-windowFront)
		at := r.after().FindStringIndex(s[front:i])
		if at == nil {
			return 0, false
		}
		return front + at[0], startsToken(s, front+at[0])
	case r.alone && i > 0 && s[i-1] == '-', r.word && isAlnum(s[i]) && !startsWord(s, i):
		return 0, false
	}
	return i, !isAlnum(s[i]) || startsToken(s, i)
}

// secret reports whether a value is one by the options of the rule.
func (r rule) secret(value string) bool {
	of := func(class func(byte) bool) bool { return run(value, 0, class) == len(value) }
	switch {
	case r.digit && (len(value) < minSecret || !needDigit(value)),
		r.mixed && (len(value) < 5 || of(isDigit) || of(letters) || strings.Contains(value, "/")):
		return false
	}
	return r.any || !isVariable(value) && !isHonest(value) && value[0] != '-'
}

// inCommand looks for the options of the program at s[i:j] in the rest of the command.
func (r rule) inCommand(s string, i, j int, add func(from, to int)) {
	if j >= len(s) || s[j] != ' ' || i > 0 && isWord(s[i-1]) && !startsToken(s, i) {
		return
	}
	text := s[j:min(len(s), j+window)]
	for _, end := range []string{"\n", "|", ";", `\n`} {
		text, _, _ = strings.Cut(text, end)
	}
	for _, m := range r.rest().FindAllStringSubmatchIndex(text, -1) {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 && r.secret(text[m[g]:m[g+1]]) {
				add(j+m[g], j+m[g+1])
			}
		}
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c|caseBit && c|caseBit <= 'f' }
func letters(c byte) bool { return 'a' <= c|caseBit && c|caseBit <= 'z' }
func isAlnum(c byte) bool { return isDigit(c) || letters(c) }
func isWord(c byte) bool  { return isAlnum(c) || c == '_' || c == '-' }

func isUpperDigit(c byte) bool { return isDigit(c) || 'A' <= c && c <= 'Z' }
func isCredential(c byte) bool { return isWord(c) || strings.IndexByte("._~+/=", c) >= 0 }

func needDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// run returns where the bytes of one class that begin at i end.
func run(s string, i int, class func(byte) bool) int {
	for i < len(s) && class(s[i]) {
		i++
	}
	return i
}

// startsWord reports whether a word begins at i: nothing of a word stands before it, or only the
// letter of an escape such as \n.
func startsWord(s string, i int) bool {
	if i == 0 || !isWord(s[i-1]) {
		return true
	}
	return isAlnum(s[i-1]) && startsToken(s, i)
}

// startsToken reports whether a token may begin at i: no letter or digit stands before it, except those that end an escape
// sequence such as \n, %3D or a color of a terminal.
func startsToken(s string, i int) bool {
	if i == 0 || !isAlnum(s[i-1]) {
		return true
	}
	c := s[i-1]
	switch {
	case c == 'm':
		p := i - 1
		for p > 0 && (isDigit(s[p-1]) || s[p-1] == ';') {
			p--
		}
		return p > 0 && s[p-1] == '['
	case i >= 2 && s[i-2] == '\\':
		return c == 'n' || c == 'r' || c == 't' || c == 'b' || c == 'f'
	case i >= 3 && s[i-3] == '%':
		return isHex(c) && isHex(s[i-2])
	case i >= 6 && s[i-6] == '\\' && s[i-5] == 'u':
		return isHex(c) && isHex(s[i-2]) && s[i-4] == '0'
	}
	return i >= 6 && s[i-6:i] == `\u001b` // a terminal's escape without the rest
}
