package guard

import "strings"

// given is one option as it stands in a command.
type given struct {
	name  string
	flag  *flag // nil when the tables do not know it
	value field
	has   bool // a value came with it
}

// parseOptions splits the words after a command. With stop it ends at the first operand, which starts something else.
func (r *row) parseOptions(words []field, stop bool) (options []given, operands []field) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		text := w.text
		switch {
		case len(text) < 2 || text[0] != '-' || text[1] == hole:
			operands = append(operands, w)
			if stop {
				return options, append(operands, words[i+1:]...)
			}
		case text == "--":
			return options, append(operands, words[i+1:]...)
		case r.single || strings.HasPrefix(text, "--"):
			name, value, has := strings.Cut(text, "=")
			g := given{name: name, flag: r.long(name), has: has, value: w.withText(value)}
			if !has && g.flag != nil && g.flag.takes && !g.flag.optional && i+1 < len(words) {
				i++
				g.value, g.has = words[i], true
			}
			options = append(options, g)
		default:
			more, next := r.shorts(w, words[i+1:])
			options = append(options, more...)
			if next {
				i++
			}
		}
	}
	return options, operands
}

// shorts reads a bundle such as -rf or -n5 and says whether it took the following word as value.
func (r *row) shorts(w field, rest []field) (options []given, next bool) {
	for k := 1; k < len(w.text); k++ {
		name := "-" + w.text[k:k+1]
		f := r.flags[name]
		g := given{name: name, flag: f}
		if f == nil || !f.takes {
			options = append(options, g)
			continue
		}
		switch tail := w.text[k+1:]; {
		case tail != "":
			g.value, g.has = w.withText(strings.TrimPrefix(tail, "=")), true
		case !f.optional && len(rest) > 0:
			g.value, g.has, next = rest[0], true, true
		}
		return append(options, g), next
	}
	return options, false
}

// long finds a long option by its name or by a beginning of it. Of several candidates a refused one comes first: the
// program would take none of them, or the bad one.
func (r *row) long(name string) *flag {
	if f := r.flags[name]; f != nil {
		return f
	}
	if r.single || len(name) < 4 {
		return nil
	}
	var best *flag
	chosen := ""
	for full, f := range r.flags {
		if strings.HasPrefix(full, name) && (best == nil || f.tier > best.tier || f.tier == best.tier && full < chosen) {
			best, chosen = f, full
		}
	}
	return best
}
