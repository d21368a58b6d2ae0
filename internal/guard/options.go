package guard

import (
	"strings"
)

// given is one option as it stands in a command.
type given struct {
	name   string
	flag   *flag
	value  field
	second field
	has    bool // a value came with it
}

// optionReader splits the words after a command into options and operands, by the options its row lists.
type optionReader struct {
	c        *call
	r        *row
	more     []*row // groups whose options are taken as well
	words    []field
	options  []given
	operands []field
}

// sorted are the words of a command as the tables divide them.
type sorted struct {
	row      *row
	options  []given
	operands []field
}

// parse reads the options of a row. What the row does not list is refused: an option of unknown arity would hide what
// follows it. With stop it ends at the first operand, which starts something else.
func (c *call) parse(r *row, words []field, stop bool) ([]given, []field) {
	p := &optionReader{c: c, r: r, more: c.groups, words: words}
	p.read(stop)
	c.j.sorted = append(c.j.sorted, sorted{r, p.options, p.operands})
	return p.options, p.operands
}

func (p *optionReader) read(stop bool) {
	c, r := p.c, p.r
	for len(p.words) > 0 {
		w := p.words[0]
		p.words = p.words[1:]
		switch {
		case maybeOption(w) && !r.free:
			c.j.refuse(ruleRunTime, c.name+" "+w.show(), "a word that is known only at run time could be an option",
				"write it out, or put -- before it")
			p.operands = append(p.operands, w)
		case w.text == "--" && !w.dyn && (!r.single || r.cmd == "find"):
			p.operands = append(p.operands, p.words...)
			return
		case p.isOption(w.text):
			p.option(w)
		default:
			p.operands = append(p.operands, w)
			if stop {
				p.operands = append(p.operands, p.words...)
				return
			}
		}
	}
}

// maybeOption reports a word that may become an option at run time.
func maybeOption(w field) bool {
	if w.glob {
		return false // what it matches is looked at where the files are
	}
	return w.dyn && !w.plain && !w.num && (w.split || w.text != "" && w.text[0] == hole)
}

func (p *optionReader) isOption(text string) bool {
	return len(text) > 1 && text[0] == '-' || p.r.plus && len(text) > 0 && text[0] == '+'
}

func (p *optionReader) find(name string) *flag {
	if f := p.r.flags[name]; f != nil {
		return f
	}
	for _, g := range p.more {
		if f := g.flags[name]; f != nil {
			return f
		}
	}
	return nil
}

// option reads one word that is an option, or a bundle of them.
func (p *optionReader) option(w field) {
	text := w.text
	if p.r.free {
		return // no word can do harm
	}
	if isDigits(text[1:]) && p.find("-NUM") != nil {
		p.options = append(p.options, given{name: "-NUM", flag: p.find("-NUM")})
		return
	}
	if strings.HasPrefix(text, "--") || p.r.single || text[0] == '+' {
		if p.r.single {
			text = "-" + strings.TrimLeft(text, "-")
		}
		name, value, has := strings.Cut(text, "=")
		f := p.find(name)
		if f == nil && has {
			f = p.find(text) // options such as +tls=… that are listed whole
		}
		if f == nil && p.r.single && len(text) > 2 && p.find(text[:2]) != nil && p.find(text[:2]).role != "" {
			// one letter with its value joined on, in programs that have both
			p.take(given{name: text[:2], flag: p.find(text[:2]), has: true, value: w.withText(text[2:])})
			return
		}
		p.take(given{name: name, flag: f, has: has, value: w.withText(value)})
		return
	}
	p.bundle(w)
}

// bundle expands -rf and -n5 by the same table.
func (p *optionReader) bundle(w field) {
	for k := 1; k < len(w.text); k++ {
		name := "-" + w.text[k:k+1]
		f := p.find(name)
		g := given{name: name, flag: f}
		if k == 1 && f == nil && p.find(w.text) != nil {
			g.flag, g.name = p.find(w.text), w.text // a word such as -vv that is listed whole
			p.take(g)
			return
		}
		if f == nil || f.role == "" {
			p.take(g)
			if f == nil {
				return // of unknown arity: the rest means nothing
			}
			continue
		}
		if tail := w.text[k+1:]; tail != "" {
			if joinsWithEquals(p.r.cmd) {
				tail = strings.TrimPrefix(tail, "=")
			}
			g.value, g.has = w.withText(tail), true
		}
		p.take(g)
		return
	}
}

// take records an option with its value.
func (p *optionReader) take(g given) {
	c, f := p.c, g.flag
	shown := strings.ReplaceAll(g.name, string(rune(hole)), "…")
	switch {
	case f == nil:
		c.refuse(ruleBash, "its option "+shown+" is not on the list", "leave the option out, or use another one")
		return
	case f.role == "" && g.has:
		c.refuse(ruleBash, "its option "+shown+" takes no value", "write "+shown+" alone, or leave it out")
	case f.role != "" && !g.has && !f.optional:
		if g.value, g.has = p.next(); !g.has {
			c.refuse(ruleBash, "its option "+shown+" has no value", "give it one")
		}
	}
	if f.second != "" {
		if g.second, g.has = p.next(); !g.has {
			c.refuse(ruleBash, "its option "+shown+" has no second value", "give it one")
		}
	}
	p.options = append(p.options, g)
}

// next takes the following word as a value.
func (p *optionReader) next() (field, bool) {
	if len(p.words) == 0 {
		return field{}, false
	}
	w := p.words[0]
	p.words = p.words[1:]
	if w.dyn && w.split || w.glob && p.r.cmd != "find" {
		p.c.j.refuse(ruleRunTime, p.c.name+" "+w.show(), "the value of an option may become several words or none", "put it in double quotes")
	}
	return w, true
}

// joinsWithEquals reports programs that read -n=web as -n web; others take the sign as part of the value.
func joinsWithEquals(cmd string) bool {
	program, _, _ := strings.Cut(cmd, " ")
	switch program {
	case "docker", "kubectl", "helm", "gh", "flux", "argocd", "podman", "nerdctl", "crictl":
		return true
	}
	return false
}
