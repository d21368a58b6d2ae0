package guard

import (
	"path"
	"slices"
	"strings"
)

// nameTable finds files by the names in their path.
type nameTable struct {
	exact    map[string]bool
	patterns []string   // one component with * or ?
	pairs    [][]string // two components in a row
	roots    [][]string // absolute paths
	Broad    bool       // patterns such as * and *.yml do not count as naming one of these files
}

// newNameTable makes a table of the names of a list.
func newNameTable(names []string) nameTable {
	t := nameTable{exact: map[string]bool{}}
	for _, n := range names {
		n = strings.ToLower(n)
		switch {
		case strings.HasPrefix(n, "/"):
			t.roots = append(t.roots, strings.Split(n[1:], "/"))
		case strings.Contains(n, "/"):
			t.pairs = append(t.pairs, strings.Split(n, "/"))
		case strings.ContainsAny(n, "*?"):
			t.patterns = append(t.patterns, n)
		default:
			t.exact[n] = true
		}
	}
	return t
}

// Match reports whether a clean path names such a file or lies below one. With glob the path is a pattern itself.
func (t nameTable) Match(p string, glob bool) bool {
	if t.Broad && slices.Contains([]string{".example", ".sample", ".template", ".dist", ".md", ".pub"}, path.Ext(p)) {
		p = path.Dir(p) // made to be read, whatever its name
	}
	parts := strings.Split(strings.ToLower(strings.TrimPrefix(p, "/")), "/")
	if len(parts) > 64 {
		return true // nobody writes such paths
	}
	for i, part := range parts {
		if t.exact[part] {
			return true
		}
		if glob && t.Broad && IsBroad(part) {
			if slices.Contains(t.patterns, part) {
				return true
			}
			continue
		}
		for _, pattern := range t.patterns {
			wild := glob && strings.ContainsAny(part, "*?[")
			if wild && resembles(part, pattern) && Hits(part, pattern) || !wild && Hits(part, pattern) {
				return true // where files can be looked up, what a pattern matches is judged as well
			}
		}
		if glob && strings.ContainsAny(part, "*?[") {
			fixed := len(part) - strings.Count(part, "*") - strings.Count(part, "?")
			for name := range t.exact {
				// one or two letters say nothing about what is meant; what they match is judged
				if Hits(part, name) && (fixed > 2 || !t.Broad || strings.HasPrefix(name, ".")) {
					return true
				}
			}
		}
		for _, pair := range t.pairs {
			if startsWith(parts[i:], pair) {
				return true
			}
		}
	}
	if path.IsAbs(p) {
		for _, root := range t.roots {
			if startsWith(parts, root) {
				return true
			}
		}
	}
	return false
}

// resembles reports whether what is fixed in a pattern points to secret files of a pattern: *.yml and privkey*.pem have
// names in common only by chance, privk* and site.k* and *.key do not.
func resembles(part, secret string) bool {
	const wild = "*?["
	head, tail := part[:strings.IndexAny(part, wild)], part[strings.LastIndexAny(part, "*?]")+1:]
	secretHead, secretTail := secret[:strings.IndexAny(secret, wild)], secret[strings.LastIndexAny(secret, wild)+1:]
	sameHead := head != "" && secretHead != "" && (strings.HasPrefix(head, secretHead) || len(head) > 2 && strings.HasPrefix(secretHead, head))
	sameTail := tail != "" && secretTail != "" && (strings.HasSuffix(tail, secretTail) || strings.HasSuffix(secretTail, tail))
	for n := 2; n <= min(len(head), len(secretTail)) && tail == ""; n++ {
		sameTail = sameTail || strings.HasSuffix(head, secretTail[:n])
	}
	switch {
	case secretHead == "":
		return sameTail
	case secretTail == "":
		return sameHead
	}
	return sameHead && (sameTail || tail == "") || sameTail && head == ""
}

// Personal reports a place below a folder of keys and passwords in somebody's home, such as .ssh.
func (t nameTable) Personal(p string) bool {
	for part := range strings.SplitSeq(strings.ToLower(p), "/") {
		if strings.HasPrefix(part, ".") && t.exact[part] {
			return true
		}
	}
	return false
}

// picks reports a pattern by which a program itself picks files, and may pick secret ones: it is none of one name, or of one extension.
func (t nameTable) picks(pattern string) bool {
	if strings.HasPrefix(pattern, "!") || strings.ContainsAny(pattern, "{,| ") {
		return strings.ContainsAny(pattern, "[{,| ") // it leaves files out
	}
	return strings.ContainsAny(pattern, "*?[") && !IsBroad(path.Base(pattern)) || t.Match(pattern, true)
}

// IsBroad reports patterns for all files, or all of one extension.
func IsBroad(part string) bool {
	ext := strings.TrimLeft(part, "*")
	return ext != part && (ext == "" || ext[0] == '.' && !strings.ContainsAny(ext[1:], "*?[."))
}

// Holds reports whether a folder may have such files somewhere below it.
func (t nameTable) Holds(dir string) bool {
	if dir == "/" || strings.HasPrefix(dir, "~") && !strings.Contains(dir, "/") || dir == "/root" || dir == "/home" ||
		path.Dir(dir) == "/home" {
		return true
	}
	parts := strings.Split(strings.ToLower(strings.TrimPrefix(dir, "/")), "/")
	for _, root := range t.roots {
		if len(parts) <= len(root) && startsWith(root[:len(parts)], parts) && (parts[0] != "proc" || len(parts) == 1 || processFolder(parts[1])) {
			return true
		}
	}
	return slices.ContainsFunc(t.pairs, func(pair []string) bool { return parts[len(parts)-1] == pair[0] })
}

// processFolder reports the folders of /proc that belong to a process.
func processFolder(name string) bool {
	return isDigits(name) || strings.HasSuffix(name, "self") || strings.ContainsAny(name, "*?[")
}

func startsWith(parts, with []string) bool {
	if len(parts) < len(with) {
		return false
	}
	for i, w := range with {
		if w != parts[i] && (!strings.ContainsAny(w, "*?") && !strings.ContainsAny(parts[i], "*?[") || !Hits(parts[i], w)) {
			return false
		}
	}
	return true
}

// Hits is intersects for a pattern the shell expands: it does not match a leading dot.
func Hits(pattern, name string) bool {
	if strings.Count(pattern, "*") > 4 || len(pattern) > 255 {
		return true // nobody writes such patterns, and matching them takes long
	}
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".") {
		return false
	}
	return intersects(pattern, name)
}

// intersects reports whether some name matches both patterns; a [set] counts as any one character.
func intersects(a, b string) bool {
	switch {
	case a == "" && b == "":
		return true
	case a != "" && a[0] == '*':
		return intersects(a[1:], b) || (b != "" && intersects(a, rest(b)))
	case b != "" && b[0] == '*':
		return intersects(a, b[1:]) || (a != "" && intersects(rest(a), b))
	case a == "" || b == "":
		return false
	case a[0] == '?' || b[0] == '?' || a[0] == '[' || b[0] == '[' || a[0] == b[0]:
		return intersects(rest(a), rest(b))
	}
	return false
}

// rest drops the first character of a pattern.
func rest(p string) string {
	if p[0] == '[' {
		if end := strings.IndexByte(p, ']'); end > 0 {
			return p[end+1:]
		}
	}
	return p[1:]
}
