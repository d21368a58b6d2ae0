package ops

import (
	"slices"
	"strings"
)

// RedisReads reports the commands of Redis that only look.
func RedisReads(words []string) bool {
	if strings.ContainsAny(strings.Join(words, ""), "\r\n") {
		return false // another service behind the port may read each line as a command
	}
	verb, second := strings.ToUpper(words[0]), ""
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
	case "CONFIG":
		// it takes patterns, and names of passwords that are known to one version only
		return second == "GET" && len(words) == 3 && configName().MatchString(words[2]) && !secretConfig().MatchString(words[2])
	}
	return slices.Contains(map[string][]string{
		"MEMORY":  {"USAGE", "STATS", "DOCTOR"},
		"SLOWLOG": {"GET", "LEN"},
		"CLIENT":  {"LIST", "INFO", "GETNAME", "ID"},
		"CLUSTER": {"INFO", "NODES", "SLOTS", "SHARDS", "MYID"},
		"LATENCY": {"LATEST", "HISTORY", "DOCTOR"},
		"OBJECT":  {"ENCODING", "IDLETIME", "FREQ", "REFCOUNT"},
		"ACL":     {"WHOAMI"},
		"SENTINEL": {
			"MASTERS", "MASTER", "SLAVES", "REPLICAS", "SENTINELS", "CKQUORUM", "GET-MASTER-ADDR-BY-NAME",
		},
	}[verb], second)
}

var (
	configName   = Pattern(`^[A-Za-z0-9_-]+$`)
	secretConfig = Pattern(`(?i)pass|auth`)
)
