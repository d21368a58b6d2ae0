package scan

import (
	"slices"
	"strings"
)

// Words are what a reading statement may call, in capital letters.
type Words struct {
	Functions map[string]bool
	Pragmas   map[string]bool
}

// SQL says why a statement is more than looking, or nothing.
func (g *Words) SQL(src string) string {
	src = strings.TrimSpace(src)
	if strings.HasPrefix(src, `\`) || strings.HasPrefix(src, ".") {
		if sqlMeta(src) {
			return ""
		}
		return "is a client command that is not on the list"
	}
	for _, end := range []string{`\G`, `\g`, ";"} { // ways to end a statement
		src = strings.TrimSpace(strings.TrimSuffix(src, end))
	}
	words, ok := sqlWords(src)
	if !ok {
		return "is not understood"
	}
	if len(words) == 0 {
		return "is empty"
	}
	switch first := words[0]; first {
	case "PRAGMA":
		return g.pragma(words[1:])
	case "SHOW", "SELECT", "EXPLAIN", "WITH", "TABLE", "VALUES", "DESCRIBE", "DESC", "(":
	default:
		return "starts with " + first
	}
	for i, w := range words {
		if secretSQL(words, i) {
			return "reads " + strings.ToLower(w) + ", which may hold passwords"
		}
		if forbiddenSQL(w) && words[0] != "SHOW" {
			return "uses " + w
		}
		if w != "" && IsLetter(w[0]) && !g.Functions[w] && (i+1 < len(words) && words[i+1] == "(" || fieldOfValue(words, i)) {
			return "calls " + strings.ToLower(w) + ", which is not on the list of functions"
		}
	}
	return ""
}

// fieldOfValue reports x in (…).x, and in f.x where f is a function in the same statement or the name given to what it yields.
// PostgreSQL calls a function x there when the value has no field of that name.
func fieldOfValue(words []string, i int) bool {
	if i < 2 || words[i-1] != "." {
		return false
	}
	of := words[i-2]
	if of == ")" || of == "]" {
		return true
	}
	if words[i] == of || words[i] == "KEY" || words[i] == "VALUE" {
		return false
	}
	for k := max(slices.Index(words, "FROM"), 0); k+1 < len(words); k++ {
		w, next := words[k], words[k+1]
		if w == of && next == "(" || next == of && k > 0 && (w == ")" || w == "AS" && words[k-1] == ")") && !subquery(words[:k+1]) {
			return true
		}
	}
	return false
}

// subquery reports whether the last parenthesis that closes holds a statement, whose value is a row.
func subquery(words []string) bool {
	open := 0
	for k := len(words) - 1; k >= 0; k-- {
		switch words[k] {
		case ")":
			open++
		case "(":
			if open--; open == 0 {
				return slices.Contains([]string{"SELECT", "WITH", "VALUES", "TABLE"}, words[k+1])
			}
		}
	}
	return false
}

// secretSQL reports a word that leads to passwords: tables of accounts, columns and settings by their custom names. A setting
// that is chosen by a text must be written out, since the text may be a pattern for all of them.
func secretSQL(words []string, i int) bool {
	for _, part := range []string{
		"PASSW", "SECRET", "CREDENTIAL", "AUTHENTICATION_STRING", "CONNINFO", "SRVOPTIONS", "UMOPTIONS", "USER_MAPPING", "FOREIGN_SERVER",
		"SUBSCRIPTION", "PG_AUTHID", "PG_SHADOW", "PG_HBA", "PRIVATE_KEY", "API_KEY", "APIKEY", "PASSPHRASE", "GRANTS", "USER_ATTRIBUTES",
	} {
		if strings.Contains(words[i], part) {
			return true
		}
	}
	switch w := words[i]; {
	case w == "MYSQL" && i+2 < len(words) && words[i+1] == ".":
		return !strings.HasPrefix(words[i+2], "INNODB_") && !strings.HasPrefix(words[i+2], "TIME_ZONE") && !strings.HasSuffix(words[i+2], "_LOG")
	case w == "USER" && i > 0:
		return words[i-1] == "CREATE"
	case w == "ALL":
		return i == 1 && words[0] == "SHOW"
	case w == "PG_SETTINGS" || w == "PG_FILE_SETTINGS":
		where := slices.Index(words, "WHERE")
		return where < 0 || where+2 >= len(words) || words[where+1] != "NAME" || words[where+2] != "=" && words[where+2] != "IN" ||
			slices.Contains(words, "OR") || slices.Contains(words, "|") || slices.Contains(words, "UNION")
	}
	return false
}

// pragma allows the settings of SQLite that are only read.
func (g *Words) pragma(words []string) string {
	if len(words) > 2 && words[1] == "." {
		words = words[2:]
	}
	if len(words) == 0 || !g.Pragmas[words[0]] && !g.Pragmas[words[0]+"("] {
		return "reads or changes a setting that is not on the list"
	}
	if len(words) > 1 && !(g.Pragmas[words[0]+"("] && words[1] == "(") {
		return "changes a setting"
	}
	return ""
}

// sqlMeta reports the client commands that only look.
func sqlMeta(src string) bool {
	if strings.ContainsAny(src, "|`;!\n") {
		return false
	}
	name := strings.Fields(src)[0]
	switch {
	case strings.HasPrefix(name, `\dR`), strings.HasPrefix(name, `\de`), strings.HasPrefix(name, `\dco`):
		return false // addresses with passwords, and settings
	case strings.HasPrefix(name, `\d`) && strings.Trim(name[1:], "dtivsmfnuplExTDFCcaAbgoPrRwy+S") == "":
		return true
	case name == `\l`, name == `\l+`, name == `\conninfo`, name == `\z`, name == `\timing`, name == `\x`, name == `\q`,
		name == ".tables", name == ".schema", name == ".databases", name == ".indexes", name == ".headers", name == ".mode",
		name == ".dbinfo", name == ".quit":
		return true
	}
	return false
}

// sqlWords splits a statement into upper-case words, values and signs. Not ok when it holds what clients and
// servers read in different ways: a backslash, a comment, a dollar sign, a second statement, an odd quote.
func sqlWords(src string) (words []string, ok bool) {
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == '\'' || c == '"' || c == '`':
			end := strings.IndexByte(src[i+1:], c)
			if end < 0 || strings.ContainsRune(src[i+1:i+1+end], '\\') {
				return nil, false
			}
			text := strings.ToUpper(src[i+1 : i+1+end])
			if c == '\'' {
				text = "'" + text // a value: no name of a function, and told apart from words of the language
			}
			words = append(words, text)
			i += end + 2
		case c == '\\' || c == '#' || c == '$' || c == ';' || c == '@' && !systemVariable(src[i:]) || c == ':' &&
			!strings.HasPrefix(src[i:], "::"),
			strings.HasPrefix(src[i:], "--"), strings.HasPrefix(src[i:], "/*"):
			return nil, false
		case c == ':' || c == '@':
			i += 2
		case IsLetter(c):
			word := Run(src[i:], len(src), Letters)
			if i += len(word); i < len(src) && src[i] == '\'' {
				return nil, false // E'…', U&'…' and their like have quotes of their own
			}
			words = append(words, strings.ToUpper(word))
		case c == ' ' || c == '\t' || c == '\n':
			i++
		default:
			words = append(words, string(c))
			i++
		}
	}
	return words, true
}

// systemVariable reports @@name of MySQL.
func systemVariable(src string) bool {
	return strings.HasPrefix(src, "@@") && len(src) > 2 && IsLetter(src[2])
}

// forbiddenSQL reports words that change data, or tables through which SQLite reads files. Functions need no such list: only those
// that are known may be called.
func forbiddenSQL(w string) bool {
	switch w {
	case "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "DROP", "ALTER", "CREATE", "GRANT", "REVOKE", "COPY", "INTO", "OUTFILE",
		"DUMPFILE", "CALL", "DO", "EXEC", "EXECUTE", "PREPARE", "VACUUM", "REINDEX", "CLUSTER", "LOCK", "ATTACH", "DETACH", "LOAD", "IMPORT",
		"RENAME",
		"HANDLER", "KILL", "FLUSH", "PURGE", "RELOAD", "SET", "PROGRAM", "FSDIR", "ZIPFILE", "SQLITE_DBPAGE", "SQLAR":
		return true
	}
	return false
}

// Redis reports the commands that only look.
func Redis(words []string) bool {
	verb, second := strings.ToUpper(words[0]), ""
	if strings.ContainsAny(strings.Join(words, ""), "\r\n") {
		return false // another service behind the port may read each line as a command
	}
	if len(words) > 1 {
		second = strings.ToUpper(words[1])
	}
	switch verb {
	case "PING", "INFO", "GET", "MGET", "KEYS", "SCAN", "DBSIZE", "TTL", "PTTL", "TYPE", "EXISTS", "STRLEN", "GETRANGE", "LLEN",
		"LRANGE", "LINDEX", "HGET", "HMGET", "HGETALL",
		"HLEN", "HKEYS", "HVALS", "HSCAN", "SCARD", "SMEMBERS", "SISMEMBER", "SSCAN", "ZCARD", "ZRANGE", "ZSCORE", "ZRANK", "ZCOUNT",
		"ZSCAN", "XLEN", "XRANGE", "XINFO", "ROLE", "TIME",
		"LASTSAVE", "COMMAND", "RANDOMKEY", "BITCOUNT", "PFCOUNT", "READONLY":
		return true
	case "MEMORY":
		return second == "USAGE" || second == "STATS" || second == "DOCTOR"
	case "SLOWLOG":
		return second == "GET" || second == "LEN"
	case "CLIENT":
		return second == "LIST" || second == "INFO" || second == "GETNAME" || second == "ID"
	case "CLUSTER":
		return second == "INFO" || second == "NODES" || second == "SLOTS" || second == "SHARDS" || second == "MYID"
	case "LATENCY":
		return second == "LATEST" || second == "HISTORY" || second == "DOCTOR"
	case "OBJECT":
		return second == "ENCODING" || second == "IDLETIME" || second == "FREQ" || second == "REFCOUNT"
	case "ACL":
		return second == "WHOAMI"
	case "SENTINEL":
		return second == "MASTERS" || second == "MASTER" || second == "SLAVES" || second == "REPLICAS" || second == "SENTINELS" ||
			second == "CKQUORUM" || second == "GET-MASTER-ADDR-BY-NAME"
	case "CONFIG":
		// it takes patterns, and names of passwords that are known to one version only
		return second == "GET" && len(words) == 3 && only(strings.ToLower(words[2]), "abcdefghijklmnopqrstuvwxyz0123456789-") &&
			!strings.Contains(strings.ToLower(words[2]), "pass") && !strings.Contains(strings.ToLower(words[2]), "auth")
	}
	return false
}
