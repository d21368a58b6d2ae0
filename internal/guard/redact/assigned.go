package redact

import "strings"

// assigned matches the value that is given to a name such as password or api_key: name=value,
// name: value, "name":"value" at any depth of JSON strings in JSON strings, and --name value.
func assigned(s string, i, j int) (from, to int, ok bool) {
	closed, p := quote(s, j)
	p = spaces(s, p)
	if p >= len(s) {
		return 0, 0, false
	}
	sep := s[p]
	switch {
	case sep == ':' || sep == '=':
		p++
		if p < len(s) && (s[p] == '=' || s[p] == '>') {
			if s[p] == '=' && sep == '=' {
				return 0, 0, false // a comparison
			}
			p++
		}
	case closed < 0 && p > j && isOption(s, i):
		sep = ' '
	default:
		return 0, 0, false
	}
	spaced := p < len(s) && s[p] == ' '
	p = spaces(s, p)
	opened, start := quote(s, p)
	switch {
	case opened >= 0 && closed >= 0 && opened != closed:
		return 0, 0, false
	case opened >= 0 && closed < 0 && endsJSONString(s, start):
		return 0, 0, false
	case opened >= 0:
		to = quotedEnd(s, start, opened, s[start-1])
		return start, to, !isVariable(s[start:to])
	case closed >= 0:
		return 0, 0, false // a number, true, false or null
	}
	to = run(s, p, isBareValue)
	return p, to, worthHiding(s[p:to], sep, spaced)
}

func spaces(s string, i int) int {
	return run(s, i, func(c byte) bool { return c == ' ' })
}

// quote returns the number of backslashes before the quote at i and the place behind it, or -1 and
// i when no quote is there.
func quote(s string, i int) (depth, after int) {
	p := run(s, i, func(c byte) bool { return c == '\\' })
	if p < len(s) && (s[p] == '"' || s[p] == '\'') {
		return p - i, p + 1
	}
	return -1, i
}

// endsJSONString reports whether the quote before i closes a JSON string instead of opening a value.
func endsJSONString(s string, i int) bool {
	return i >= len(s) || strings.IndexByte(",}]: \t\r\n", s[i]) >= 0
}

// quotedEnd finds the quote that closes a value that was opened with depth backslashes.
func quotedEnd(s string, i, depth int, with byte) int {
	for p := i; p < len(s); p++ {
		if s[p] != with && s[p] != '"' {
			continue
		}
		n := min(backslashes(s, p), p-i)
		if n < depth || n%(2*(depth+1)) == depth {
			return p - min(n, depth)
		}
	}
	return len(s)
}

// isOption reports whether the name at i belongs to a command line option.
func isOption(s string, i int) bool {
	for i > 0 && isWord(s[i-1]) {
		i--
	}
	return strings.HasPrefix(s[i:], "--")
}

func isBareValue(c byte) bool {
	return c > ' ' && strings.IndexByte("\"'\\&,;<>()[]{}|`", c) < 0
}

// worthHiding tells a value from prose and from the name of a variable.
func worthHiding(value string, sep byte, spaced bool) bool {
	switch {
	case value == "" || isVariable(value):
		return false
	case sep == '=' && !spaced:
		return true
	case sep == ' ':
		return value[0] != '-'
	}
	return len(value) >= minSecret && strings.ContainsFunc(value, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '_'
	})
}

// isVariable reports whether the value only names a shell variable.
func isVariable(value string) bool {
	name, ok := strings.CutPrefix(value, "$")
	return ok && run(name, 0, func(c byte) bool { return isUpperDigit(c) || c == '_' }) == len(name)
}
