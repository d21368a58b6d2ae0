package guard

import (
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// judgeSQL judges database clients: one reading statement, given as text.
func judgeSQL(c *call) {
	c.optionsOf(c.row, c.options)
	statements, lists := 0, c.has("-l", "--list", "-V", "--version", "--help")
	for _, g := range c.options {
		if g.flag != nil && (sameFlag(g.flag, "-c") || sameFlag(g.flag, "-e")) && g.has {
			statements++
			c.sql(g.value)
		}
	}
	operands := c.operands
	if c.row.cmd == "sqlite3" {
		if len(operands) > 0 {
			c.j.read(c.s, operands[0], "sqlite3")
			operands = operands[1:]
		}
		for _, f := range operands {
			statements++
			c.sql(f)
		}
	} else {
		for _, f := range operands {
			if f.dyn {
				c.runTime("")
			}
		}
	}
	if statements == 0 && !lists {
		c.refuse(ruleRunTime, "its statements come from its standard input", "give one statement as text")
	}
	c.need(ops.Tier1)
}

func (c *call) sql(f field) {
	if f.dyn {
		c.runTime("statement")
		return
	}
	if why := sqlTrouble(f.text); why != "" {
		c.refuse(ruleBash, "its statement "+why, "only one reading statement (SELECT, SHOW, EXPLAIN) is allowed; report what should change")
	}
}

// sqlTrouble says why a statement is more than looking, or nothing.
func sqlTrouble(src string) string {
	src = strings.TrimSpace(src)
	if strings.HasPrefix(src, `\`) || strings.HasPrefix(src, ".") {
		if sqlMeta(src) {
			return ""
		}
		return "is a client command that is not on the list"
	}
	words, ok := sqlWords(src)
	if !ok {
		return "is not understood"
	}
	if len(words) == 0 {
		return "is empty"
	}
	switch first := words[0]; first {
	case "SELECT", "SHOW", "EXPLAIN", "WITH", "TABLE", "VALUES", "DESCRIBE", "DESC", "PRAGMA", "(":
		if first == "PRAGMA" && slices.Contains(words, "=") {
			return "changes a setting"
		}
	default:
		return "starts with " + first
	}
	for i, w := range words {
		if w == ";" && i < len(words)-1 {
			return "has a second statement behind it"
		}
		if forbiddenSQL(w) {
			return "uses " + w
		}
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
	case strings.HasPrefix(name, `\d`) && strings.Trim(name[1:], "dtivsmfnuplExTDFCcaAbgoPrRwy+S") == "":
		return true
	case name == `\l`, name == `\l+`, name == `\conninfo`, name == `\z`, name == `\timing`, name == `\x`, name == `\q`,
		name == ".tables", name == ".schema", name == ".databases", name == ".indexes", name == ".headers", name == ".mode", name == ".dbinfo", name == ".quit":
		return true
	}
	return false
}

// sqlWords splits a statement into upper-case words and signs, without comments and strings. Not ok when it holds a
// backslash or a quote that does not close: clients differ in how they read them.
func sqlWords(src string) (words []string, ok bool) {
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == '\'' || c == '"' || c == '`':
			end := strings.IndexByte(src[i+1:], c)
			if end < 0 || strings.ContainsRune(src[i+1:i+1+end], '\\') {
				return nil, false
			}
			if c != '\'' {
				words = append(words, strings.ToUpper(src[i+1:i+1+end]))
			}
			i += end + 2
		case c == '\\':
			return nil, false
		case c == '-' && strings.HasPrefix(src[i:], "--"), c == '#', c == '/' && strings.HasPrefix(src[i:], "/*"), c == '$' && strings.HasPrefix(src[i:], "$$"):
			return nil, false // comments and dollar quotes: never needed, and read differently
		case isLetter(c):
			word := run(src[i:], len(src), letters)
			words = append(words, strings.ToUpper(word))
			i += len(word)
		case c == ';' || c == '=' || c == '(':
			words = append(words, string(c))
			i++
		default:
			i++
		}
	}
	return words, true
}

// forbiddenSQL reports words that change data, run code or read files.
func forbiddenSQL(w string) bool {
	switch w {
	case "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "DROP", "ALTER", "CREATE", "GRANT", "REVOKE", "COPY", "INTO", "OUTFILE", "DUMPFILE", "CALL", "DO",
		"EXEC", "EXECUTE", "PREPARE", "VACUUM", "REINDEX", "CLUSTER", "LOCK", "ATTACH", "DETACH", "LOAD", "IMPORT", "RENAME", "HANDLER", "KILL", "FLUSH", "PURGE",
		"WRITEFILE", "READFILE", "EDIT", "LOAD_EXTENSION", "LOAD_FILE", "FTS3_TOKENIZER", "SYSTEM", "SOURCE", "PROGRAM", "SETVAL", "NEXTVAL", "SET_CONFIG", "SET",
		"SYS_EXEC", "SYS_EVAL", "XP_CMDSHELL", "BENCHMARK", "SLEEP", "GET_LOCK", "QUERY_TO_XML", "DBLINK", "DBLINK_EXEC", "CURSOR_TO_XML", "DATABASE_TO_XML", "TABLE_TO_XML",
		"PG_AUTHID", "PG_SHADOW", "PG_USER_MAPPING", "AUTHENTICATION_STRING", "RELOAD", "PG_NOTIFY":
		return true
	}
	for _, prefix := range []string{
		"LO_", "PG_READ", "PG_LS", "PG_TERMINATE", "PG_CANCEL", "PG_RELOAD", "PG_ROTATE", "PG_SWITCH", "PG_PROMOTE", "PG_CREATE", "PG_DROP", "PG_START", "PG_STOP", "PG_BACKUP",
		"PG_LOGICAL", "PG_REPLICATION", "PG_SLEEP", "PG_FILE", "PG_STAT_FILE", "PG_WAL_REPLAY", "PG_STAT_RESET", "PG_ADVISORY", "PG_TRY_ADVISORY", "PG_EXECUTE", "PG_IMPORT", "PG_EXTENSION_CONFIG", "DBLINK_",
	} {
		if strings.HasPrefix(w, prefix) {
			return true
		}
	}
	return false
}

// judgeRedis judges redis-cli by the command it sends.
func judgeRedis(c *call) {
	options, operands := c.row.parseOptions(c.args, true)
	c.options = options
	c.optionsOf(c.row, options)
	if len(operands) == 0 {
		if !c.has("--latency", "--stat", "--bigkeys", "--memkeys", "--hotkeys", "--scan") {
			c.refuse(ruleRunTime, "its commands come from its standard input", "give one command as arguments")
		}
		c.need(ops.Tier1)
		return
	}
	for _, f := range operands {
		if f.dyn {
			c.runTime("command")
			return
		}
	}
	verb := strings.ToUpper(operands[0].text)
	second := ""
	if len(operands) > 1 {
		second = strings.ToUpper(operands[1].text)
	}
	if !redisLooks(verb, second, operands) {
		c.refuse(ruleBash, verb+" is not on the list of reading commands", "only reading commands are allowed; report what should change")
	}
	c.need(ops.Tier1)
}

// redisLooks reports the commands that only look.
func redisLooks(verb, second string, words []field) bool {
	switch verb {
	case "PING", "INFO", "GET", "MGET", "KEYS", "SCAN", "DBSIZE", "TTL", "PTTL", "TYPE", "EXISTS", "STRLEN", "GETRANGE", "LLEN", "LRANGE", "LINDEX", "HGET", "HMGET", "HGETALL",
		"HLEN", "HKEYS", "HVALS", "HSCAN", "SCARD", "SMEMBERS", "SISMEMBER", "SSCAN", "ZCARD", "ZRANGE", "ZSCORE", "ZRANK", "ZCOUNT", "ZSCAN", "XLEN", "XRANGE", "XINFO", "ROLE", "TIME",
		"LASTSAVE", "ECHO", "COMMAND", "RANDOMKEY", "BITCOUNT", "PFCOUNT", "READONLY":
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
		return second == "MASTERS" || second == "MASTER" || second == "SLAVES" || second == "REPLICAS" || second == "SENTINELS" || second == "CKQUORUM" || second == "GET-MASTER-ADDR-BY-NAME"
	case "CONFIG":
		return second == "GET" && len(words) == 3 && !strings.Contains(strings.ToLower(words[2].text), "pass") && !strings.Contains(words[2].text, "*")
	}
	return false
}
