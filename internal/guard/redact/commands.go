package redact

import (
	"maps"
	"slices"
	"strings"
)

// flag is a command line option that takes a secret.
type flag struct {
	programs string // between |
	name     string // -p
	attached bool   // -pSECRET is the only form; else -p SECRET or -p=SECRET
	after    byte   // the secret begins behind this byte of the value: user:password
}

// commandFlags lists the options of well-known programs that take a secret and whose names do not say so.
func commandFlags() []flag {
	return []flag{
		{programs: "mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|7z |7za |sshpass", name: "-p", attached: true},
		{programs: "sshpass|mongosh|mongodump|mongo |cadaver|rabbitmqadmin", name: "-p"},
		{programs: "docker login|podman login|helm registry login|az login|oc login|skopeo login", name: "-p"},
		{programs: "redis-cli|valkey-cli", name: "-a"},
		{programs: "ldapsearch|ldapmodify|ldapadd|ldapwhoami", name: "-w"},
		{programs: "unzip|zip |sqlcmd|bcp |ipmitool", name: "-P"},
		{programs: "snmpget|snmpwalk", name: "-A"},
		{programs: "smbclient|rpcclient", name: "-U", after: '%'},
		{programs: "curl", name: "-u", after: ':'},
		{programs: "curl", name: "--user", after: ':'},
		{programs: "curl", name: "--proxy-user", after: ':'},
		{programs: "curl", name: "-U", after: ':'},
		{programs: "curl", name: "-b", after: '='},
		{programs: "ab ", name: "-A", after: ':'},
		{programs: "lftp", name: "-u", after: ','},
		{programs: "http |https ", name: "-a", after: ':'},
	}
}

const commandLimit = 2048

// commandLiterals finds secrets by the program they are given to, or by the words around them.
func commandLiterals() []literal {
	byProgram := make(map[string][]flag)
	for _, f := range commandFlags() {
		for program := range strings.SplitSeq(f.programs, "|") {
			byProgram[program] = append(byProgram[program], f)
		}
	}
	var out []literal
	for _, program := range slices.Sorted(maps.Keys(byProgram)) {
		flags := byProgram[program]
		out = append(out, literal{text: program, mark: markPassword, each: func(s string, i, j int, add func(from, to int)) {
			inCommand(s, i, j, flags, add)
		}})
	}
	return append(out,
		literal{text: "identified by ", fold: true, mark: markPassword, match: quotedNext},
		literal{text: "identified with ", fold: true, mark: markPassword, match: quotedAfterBy},
		literal{text: "--from-literal", mark: markPassword, match: fromLiteral},
		literal{text: " -u ", mark: markPassword, match: userOption},
		literal{text: "pass:", mark: markPassword, match: opensslPass},
		literal{text: "chpasswd", mark: markPassword, match: beforeChpasswd},
		literal{text: "htpasswd ", mark: markPassword, match: htpasswd},
	)
}

// inCommand looks for the flags in the command that begins at i.
func inCommand(s string, i, j int, flags []flag, add func(from, to int)) {
	if i > 0 && isWord(s[i-1]) && !startsToken(s, i) {
		return
	}
	if j < len(s) && s[j-1] != ' ' && s[j] != ' ' {
		return
	}
	end := commandEnd(s, j)
	for p := j - 1; p < end; p++ {
		if s[p] != ' ' || p+1 >= end || s[p+1] != '-' {
			continue
		}
		for _, f := range flags {
			if from, to, ok := f.value(s[:end], p+1); ok {
				add(from, to)
				break
			}
		}
	}
}

// commandEnd is where the command ends that s[i] belongs to.
func commandEnd(s string, i int) int {
	end := min(len(s), i+commandLimit)
	for p := i; p < end; p++ {
		switch s[p] {
		case '\n', '|', ';':
			return p
		case '\\':
			if p+1 < end && s[p+1] == 'n' {
				return p
			}
		}
	}
	return end
}

// value is the secret that is given with the flag at i.
func (f flag) value(s string, i int) (from, to int, ok bool) {
	if !strings.HasPrefix(s[i:], f.name) {
		return 0, 0, false
	}
	p := i + len(f.name)
	if f.attached {
		if p >= len(s) || s[p] == ' ' || s[p] == '-' || s[p] == '=' {
			return 0, 0, false
		}
	} else {
		if p >= len(s) || s[p] != ' ' && s[p] != '=' {
			return 0, 0, false
		}
		p = spaces(s, p+1)
	}
	from, to = argument(s, p)
	if f.after != 0 {
		at := strings.IndexByte(s[from:to], f.after)
		if at < 0 {
			return 0, 0, false
		}
		from += at + 1
	}
	return from, to, to > from && !isVariable(s[from:to]) && s[from] != '-'
}

// argument is the word at i without its quotes.
func argument(s string, i int) (from, to int) {
	if depth, start := quote(s, i); depth >= 0 {
		return start, quotedEnd(s, start, depth, s[start-1])
	}
	return i, run(s, i, func(c byte) bool { return c > ' ' && strings.IndexByte("\"'\\|;&`<>()", c) < 0 })
}

// quotedNext matches the quoted text that follows.
func quotedNext(s string, _, j int) (from, to int, ok bool) {
	p := spaces(s, j)
	if strings.HasPrefix(strings.ToLower(s[p:min(len(s), p+9)]), "password ") {
		p += len("password ")
	}
	depth, start := quote(s, p)
	if depth < 0 {
		return 0, 0, false
	}
	return start, quotedEnd(s, start, depth, s[start-1]), true
}

// quotedAfterBy matches the text in IDENTIFIED WITH method BY 'text'.
func quotedAfterBy(s string, i, j int) (from, to int, ok bool) {
	const limit = 80
	rest := strings.ToLower(s[j:min(len(s), j+limit)])
	at := strings.Index(rest, " by ")
	if at < 0 {
		return 0, 0, false
	}
	return quotedNext(s, i, j+at+len(" by "))
}

// fromLiteral matches the value in --from-literal=key=value.
func fromLiteral(s string, _, j int) (from, to int, ok bool) {
	if j >= len(s) || s[j] != '=' && s[j] != ' ' {
		return 0, 0, false
	}
	from, to = argument(s, j+1)
	at := strings.IndexByte(s[from:to], '=')
	if at < 0 {
		return 0, 0, false
	}
	if depth, start := quote(s, from+at+1); depth >= 0 {
		return start, quotedEnd(s, start, depth, s[start-1]), true
	}
	return from + at + 1, to, true
}

// userOption matches the password in -u user:password of any program. User and group ids look alike.
func userOption(s string, _, j int) (from, to int, ok bool) {
	from, to = argument(s, j)
	user, password, found := strings.Cut(s[from:to], ":")
	if !found || user == "" || len(password) < 5 || isVariable(password) {
		return 0, 0, false
	}
	if strings.ContainsAny(user, "/$") || strings.Contains(password, "/") {
		return 0, 0, false
	}
	word := run(password, 0, isDigit) == len(password) ||
		run(password, 0, letters) == len(password)
	return from + len(user) + 1, to, !word
}

// opensslPass matches pass:text as OpenSSL takes it.
func opensslPass(s string, i, j int) (from, to int, ok bool) {
	if i < 2 || s[i-1] != ' ' && s[i-1] != '\'' && s[i-1] != '"' || j >= len(s) {
		return 0, 0, false
	}
	before := s[max(0, i-12):i]
	if !strings.Contains(before, "-pass") && !strings.Contains(before, "-passin") && !strings.Contains(before, "-passout") {
		return 0, 0, false
	}
	to = run(s, j, isBareValue)
	return j, to, to > j && !isVariable(s[j:to])
}

// beforeChpasswd matches the password in echo user:password | chpasswd.
func beforeChpasswd(s string, i, _ int) (from, to int, ok bool) {
	const limit = 200
	before := s[max(0, i-limit):i]
	pipe := strings.LastIndexByte(before, '|')
	if pipe < 0 {
		return 0, 0, false
	}
	colon := strings.LastIndexByte(before[:pipe], ':')
	if colon < 0 {
		return 0, 0, false
	}
	from = i - len(before) + colon + 1
	to = run(s, from, isBareValue)
	return from, to, to > from && !isVariable(s[from:to])
}

// htpasswd matches the last word of htpasswd -b file user password.
func htpasswd(s string, _, j int) (from, to int, ok bool) {
	end := commandEnd(s, j)
	words, batch, p := 0, false, j
	for p = spaces(s, p); p < end; p = spaces(s, to) {
		from, to = argument(s[:end], p)
		if to == from {
			return 0, 0, false
		}
		if s[p] == '-' {
			batch = batch || strings.Contains(s[from:to], "b")
			continue
		}
		words++
		if words == 3 || words == 2 && strings.Contains(s[j:from], "n") && p == from && spaces(s, to) >= end {
			return from, to, batch
		}
	}
	return 0, 0, false
}
