package scan

import (
	"strings"
)

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
