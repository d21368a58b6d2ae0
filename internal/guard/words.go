package guard

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// letters are the characters of plain names.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// hole stands in a field's text for a part that is known only at run time. Commands never hold a NUL themselves.
const hole = '\x00'

// field is one word of a command as the program would see it, as far as that is known.
type field struct {
	text   string
	dyn    bool // has a part known only at run time
	split  bool // that part may become several words, or none
	viaVar bool // has a part that came out of a variable
	glob   bool // has a pattern the shell expands
	proc   bool // is a process substitution
	num    bool // its run-time parts are numbers
	plain  bool // its run-time parts are names: they start with a letter or digit and hold no blank
	temp   bool // it is the file that mktemp made, or nothing
	at     *syntax.Word
}

func (f field) withText(s string) field {
	f.text = s
	f.dyn = f.dyn && strings.IndexByte(s, hole) >= 0
	return f
}

// literal returns the text when nothing about the word is left to the run time.
func (f field) literal() (string, bool) {
	return f.text, !f.dyn && !f.viaVar && !f.glob && !f.proc
}

// show is the text for a message.
func (f field) show() string {
	return ops.Cut(strings.ReplaceAll(f.text, string(rune(hole)), "…"), 60)
}

// lit makes a field of plain text.
func lit(s string) field { return field{text: s} }

// reading collects the parts of one word.
type reading struct {
	field
	text  strings.Builder
	any   bool // there is a part that makes a word even if it is empty
	whole bool // it is never split into several words
	j     *judge
	s     *scope
}

// fields evaluates a word and judges the commands inside it.
func (j *judge) fields(s *scope, w *syntax.Word) []field {
	if words := j.elements(s, w); words != nil {
		return words
	}
	expanded, plain := braces(w)
	if !plain && expanded != nil {
		out := make([]field, 0, len(expanded))
		for _, text := range expanded {
			if text == "" {
				continue // an empty alternative gives no word
			}
			out = append(out, j.fields(s, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: text}}})...)
		}
		return out
	}
	r := &reading{j: j, s: s}
	r.num, r.plain = true, true
	for _, p := range w.Parts {
		r.part(p, false)
	}
	if !plain {
		r.dyn, r.split, r.num, r.plain = true, true, false, false
		if manyWords().MatchString(r.text.String()) {
			j.refuse(ruleText, "this expansion", "it becomes too many words", "repeat a limited number of times")
		}
	}
	f := r.field
	f.text, f.at = r.text.String(), w
	if f.text == "" && !r.any && !f.dyn {
		return nil // an unquoted empty variable is no word
	}
	return []field{f}
}

// one evaluates a word that cannot become several, such as the value of an assignment.
func (j *judge) one(s *scope, w *syntax.Word) field {
	if w == nil {
		return field{}
	}
	r := &reading{j: j, s: s, whole: true}
	r.num, r.plain = true, true
	for _, p := range w.Parts {
		r.part(p, false)
	}
	f := r.field
	f.text, f.glob, f.split = r.text.String(), false, false
	return f
}

// words evaluates a list of words.
func (j *judge) words(s *scope, list []*syntax.Word) []field {
	out := make([]field, 0, len(list))
	for _, w := range list {
		out = append(out, j.fields(s, w)...)
	}
	return out
}

// part adds one part of a word.
func (r *reading) part(p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		r.any = true
		if quoted {
			r.text.WriteString(unescapeQuoted(p.Value))
		} else {
			r.unquoted(p.Value)
		}
	case *syntax.SglQuoted:
		r.any = true
		if p.Dollar {
			text, ok := ansiC(p.Value)
			if !ok {
				r.dynamic(value{}, true)
				return
			}
			r.text.WriteString(text)
			return
		}
		r.text.WriteString(p.Value)
	case *syntax.DblQuoted:
		r.any = true
		if p.Dollar {
			r.dynamic(value{}, true) // translated at run time
		}
		for _, q := range p.Parts {
			r.part(q, true)
		}
	case *syntax.ParamExp:
		r.dynamic(r.j.param(r.s, p), quoted)
	case *syntax.CmdSubst:
		r.dynamic(r.j.substitution(r.s, p), quoted)
	case *syntax.ArithmExp:
		r.j.arithmetic(r.s, p.X)
		r.dynamic(value{num: true}, true)
	case *syntax.ProcSubst:
		r.j.procSubst(r.s, p)
		r.any, r.proc = true, true
		r.text.WriteString("/dev/fd/63")
	case *syntax.ExtGlob:
		r.glob = true
		r.dynamic(value{}, true)
	default:
		r.dynamic(value{}, false)
	}
}

// dynamic adds the value of an expansion.
func (r *reading) dynamic(v value, quoted bool) {
	quoted = quoted || r.whole
	_, ifs := r.s.vars["IFS"]
	switch {
	case v.known && (quoted || v.glob && !ifs && !strings.ContainsAny(v.text, " \t\n")):
		r.any = true
		r.viaVar = r.viaVar || !v.inline
		r.glob = r.glob || v.glob
		r.text.WriteString(v.text)
	case v.known && !ifs && !strings.ContainsAny(v.text, " \t\n*?["):
		r.viaVar = r.viaVar || !v.inline
		r.text.WriteString(v.text)
	default:
		r.dyn, r.temp = true, v.temp
		r.num, r.plain = r.num && v.num, r.plain && v.plain
		r.split = r.split || !quoted && (!v.num || v.unset) || v.many
		r.text.WriteByte(hole)
	}
}

// unquoted adds text outside quotes: backslashes quote, patterns are expanded.
func (r *reading) unquoted(s string) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i == len(s) {
				r.text.WriteByte(c) // nothing left to quote
			} else if s[i] != '\n' {
				r.text.WriteByte(s[i])
			}
		case '*', '?', '[':
			r.glob = r.glob || c != '[' || strings.IndexByte(s[i:], ']') > 0
			r.text.WriteByte(c)
		default:
			r.text.WriteByte(c)
		}
	}
}

// unescapeQuoted removes the backslashes that double quotes know.
func unescapeQuoted(s string) string {
	if !strings.ContainsRune(s, '\\') {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// ansiC decodes the inside of $'…', where all that it holds is text and escapes of one letter.
func ansiC(s string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		k := strings.IndexByte(`abeEfnrtv\'"?`, s[i])
		if k < 0 {
			return "", false
		}
		out.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[k])
	}
	return out.String(), true
}

// maxBraces is how many words a brace expansion may become before it counts as known only at run time.
const maxBraces = 32

// manyWords matches braces that may become more words than the shell should hold in memory: ranges of long numbers, and many braces.
var manyWords = ops.Pattern(`\.\.[^{},]*[^{},.]{4}|[^{},.]{4}[^{},]*\.\.|\{.*\{.*\{`)

// oneBrace matches a word with one plain brace expression, oneRange a range of numbers in it.
var (
	oneBrace = ops.Pattern(`^([^{}\\$]*)\{([^{}\\$]*)\}([^{}\\$]*)$`)
	oneRange = ops.Pattern(`^(0|[1-9]\d{0,2})\.\.(0|[1-9]\d{0,2})$`)
)

// braces expands a plain brace expression such as docs/{a,b}.md or {1..5}. Plain is true for a word without any;
// a word with one that is not simple gives nothing, and counts as known only at run time.
func braces(w *syntax.Word) (expanded []string, plain bool) {
	if !braced(w) {
		return nil, true
	}
	word := oneBrace().FindStringSubmatch(w.Lit())
	if word == nil {
		return nil, false
	}
	items := strings.Split(word[2], ",")
	if ends := oneRange().FindStringSubmatch(word[2]); ends != nil {
		items = nil
		from, _ := strconv.Atoi(ends[1]) // digits
		to, _ := strconv.Atoi(ends[2])
		for n := from; n <= min(to, from+maxBraces); n++ {
			items = append(items, strconv.Itoa(n))
		}
	}
	if len(items) < 2 || len(items) > maxBraces {
		return nil, false
	}
	for _, item := range items {
		expanded = append(expanded, word[1]+item+word[3])
	}
	return expanded, false
}

// braced reports whether the shell may expand braces in the word.
func braced(w *syntax.Word) bool {
	open, inner := false, false
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			continue
		}
		for i := range len(l.Value) {
			switch c := l.Value[i]; {
			case c == '{':
				open = true
			case open && (c == ',' || strings.HasPrefix(l.Value[i:], "..")):
				inner = true
			case inner && c == '}':
				return true
			}
		}
	}
	return false
}

// checkLiterals refuses text that the parser takes for plain and bash may take for code. Inside ${x:-…} bash finds a
// process substitution where the parser sees a redirect sign and a parenthesis; and when that stands in double quotes,
// single quotes inside it are plain characters for bash and do not keep a substitution from running.
func checkLiterals(src string, f *syntax.File) *finding {
	if !strings.Contains(src, "(") && !strings.Contains(src, "`") {
		return nil
	}
	var bad *finding
	var parents []syntax.Node
	documents := map[syntax.Node]bool{} // text of here-documents, and whether it is expanded
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		switch n := n.(type) {
		case *syntax.Redirect:
			if n.Hdoc != nil {
				for _, p := range n.Hdoc.Parts {
					documents[p] = !quotedDelimiter(n.Word)
				}
			}
		case *syntax.SglQuoted:
			expansion := slices.ContainsFunc(parents, func(p syntax.Node) bool { _, ok := p.(*syntax.ParamExp); return ok })
			if expansion && strings.ContainsAny(n.Value, "$`\"\\}") {
				bad = refuseText("it holds quotes inside an expansion, and shells differ in what they quote")
			}
		case *syntax.Lit:
			_, quoted := parents[len(parents)-1].(*syntax.DblQuoted)
			expanded, document := documents[n]
			if (expanded || !document) && looksLikeCode(n.Value, quoted || document) {
				bad = refuseText("it holds a substitution where shells differ in whether it is one")
			}
		}
		parents = append(parents, n)
		return true
	})
	return bad
}

// looksLikeCode reports an unescaped start of a substitution in a literal.
func looksLikeCode(text string, quoted bool) bool {
	before := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\':
			i++
			c = 0
		case c == '`', c == '(' && before == '$', c == '(' && !quoted && (before == '<' || before == '>'):
			return true
		}
		before = c
	}
	return false
}
