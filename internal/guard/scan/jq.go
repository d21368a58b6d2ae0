package scan

import (
	"strings"
)

// Jq names the word of a filter that reads the environment, a module or a file, or nothing.
func Jq(filter string) string {
	for i := 0; i < len(filter); {
		switch c := filter[i]; {
		case c == '"':
			end, inner := jqString(filter, i)
			for _, part := range inner {
				if word := Jq(part); word != "" {
					return word
				}
			}
			i = end
		case c == '#':
			return "a comment"
		case IsLetter(c):
			word := Run(filter[i:], len(filter), Letters)
			before, after := jqBefore(filter[:i]), strings.TrimLeft(filter[i+len(word):], " \t\n")
			i += len(word)
			if jqReads(word) && before != '.' && !(strings.HasPrefix(after, ":") && !strings.HasPrefix(after, "::")) && (before != '$' ||
				word == "ENV" || word == "__prog_args") {
				return word
			}
		default:
			i++
		}
	}
	return ""
}

// jqBefore is the character before a word, blanks left out where they mean nothing.
func jqBefore(head string) byte {
	if head == "" {
		return ' '
	}
	return head[len(head)-1]
}

func jqReads(word string) bool {
	switch word {
	case "env", "ENV", "__prog_args", "strenv", "envsubst", "load", "load_str", "load_xml", "load_props", "load_base64", "load_yaml",
		"import", "include",
		"get_search_list", "modulemeta", "system", "input_filename", "halt_error", "debug", "stderr", "getpath_file", "exec":
		return true
	}
	return false
}

// jqString returns the end of a string and the filters that are put into it.
func jqString(text string, at int) (end int, inner []string) {
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return i + 1, inner
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '(':
			depth, from := 1, i+2
			for i = from; i < len(text) && depth > 0; i++ {
				switch text[i] {
				case '(':
					depth++
				case ')':
					depth--
				}
			}
			inner = append(inner, text[from:min(i, len(text))])
			i--
		case text[i] == '\\':
			i++
		}
	}
	return len(text), append(inner, text[at+1:]) // it does not close: all of it may be code
}
