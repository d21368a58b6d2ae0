package guard

import (
	"fmt"
	"strings"
)

// namesFile returns an embedded list of names by their verdict, with the reason of each verdict.
func namesFile(name string) (names map[string][]string, why map[string]string, order []string, err error) {
	data, err := tableFiles.ReadFile("tables/" + name)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read list: %w", err)
	}
	names, why = map[string][]string{}, map[string]string{}
	verdict := ""
	for n, line := range strings.Split(string(data), "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(trimmed, "//"):
		case line[0] == ' ' && verdict != "":
			names[verdict] = append(names[verdict], strings.Fields(trimmed)...)
		default:
			head, reason, ok := strings.Cut(trimmed, " : ")
			if !ok || why[head] != "" {
				return nil, nil, nil, fmt.Errorf("%s:%d: want `verdict : reason`", name, n+1)
			}
			verdict, why[head] = head, reason
			order = append(order, head)
		}
	}
	return names, why, order, nil
}

// variableTable says what may be done with variables.
type variableTable struct {
	exact    map[string]string
	prefixes map[string]string
	suffixes map[string]string
}

func newVariableTable(names map[string][]string) variableTable {
	t := variableTable{map[string]string{}, map[string]string{}, map[string]string{}}
	for verdict, list := range names {
		for _, n := range list {
			switch {
			case strings.HasPrefix(n, "*"):
				t.suffixes[n[1:]] = verdict
			case strings.HasSuffix(n, "*"):
				t.prefixes[strings.TrimSuffix(n, "*")] = verdict
			default:
				t.exact[n] = verdict
			}
		}
	}
	return t
}

// verdict looks a variable up: its whole name, its longest beginning, its ending.
func (t variableTable) verdict(name string) string {
	if v, ok := t.exact[name]; ok {
		return v
	}
	for i := len(name); i > 0; i-- {
		if v, ok := t.prefixes[name[:i]]; ok {
			return v
		}
	}
	for suffix, v := range t.suffixes {
		if strings.HasSuffix(name, suffix) {
			return v
		}
	}
	return ""
}

// nameSet makes a set of names, in capital letters.
func nameSet(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[strings.ToUpper(n)] = true
	}
	return out
}
