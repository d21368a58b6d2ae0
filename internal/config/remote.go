package config

import (
	"fmt"
	"strings"
)

const (
	serverVariable = ownPrefix + "SERVER"
	tokenVariable  = ownPrefix + "API_TOKEN"
)

// Remote is a daemon on another machine, and the token for it.
type Remote struct {
	Server    string // empty: the local state folder is used
	Token     string
	TokenFile string // read instead of the token's variables
}

// ReadRemote adds what the environment says about a remote daemon to what flags say.
func ReadRemote(given Remote, environ []string) (Remote, error) {
	vars := variables(environ)
	r := given
	if r.Server == "" {
		r.Server = strings.TrimSpace(vars[serverVariable])
	}
	if r.Server == "" {
		return Remote{}, nil
	}
	if !webURL(r.Server) {
		return Remote{}, fmt.Errorf("the server %q is not an address such as http://127.0.0.1:8080", withoutPassword(r.Server))
	}
	r.Token = strings.TrimSpace(vars[tokenVariable])
	file := r.TokenFile
	if file == "" && r.Token == "" {
		file = strings.TrimSpace(vars[tokenVariable+"_FILE"])
	}
	if file == "" {
		return r, nil
	}
	text, err := readText(file)
	if err != nil {
		return Remote{}, fmt.Errorf("read token: %w", err)
	}
	r.Token = strings.TrimSpace(text)
	return r, nil
}
