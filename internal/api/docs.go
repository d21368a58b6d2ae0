package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// The page that shows the description, with Swagger UI as it was published: nothing is loaded from another host. Large files are
// compressed.
//
//go:embed docs/index.html docs/start.js docs/theme.js docs/page.css docs/*.gz
var docFiles embed.FS

// registerDocs serves the page at /api/docs and its files below it.
func registerDocs(routes *http.ServeMux) {
	for path, file := range map[string]string{
		"/api/docs/start.js":             "start.js",
		"/api/docs/theme.js":             "theme.js",
		"/api/docs/page.css":             "page.css",
		"/api/docs/swagger-ui.css":       "swagger-ui.css.gz",
		"/api/docs/swagger-ui-bundle.js": "swagger-ui-bundle.js.gz",
	} {
		routes.HandleFunc("GET "+path, serveDoc(file))
	}
	routes.HandleFunc("GET /api/docs", docsPage)
	routes.Handle("GET /api/docs/{$}", http.RedirectHandler("/api/docs", http.StatusMovedPermanently))
}

// serveDoc serves an embedded file. A client that does not take compressed files gets it expanded.
func serveDoc(file string) http.HandlerFunc {
	name, compressed := strings.CutSuffix(file, ".gz")
	// Most installations never open the page, so it is read on demand.
	load := sync.OnceValues(func() (document []byte, tag string) {
		content, err := docFiles.ReadFile("docs/" + file)
		if err != nil {
			panic(fmt.Sprintf("read embedded %s: %v", file, err)) // it is compiled in
		}
		sum := sha256.Sum256(content)
		return content, base64.RawURLEncoding.EncodeToString(sum[:12])
	})
	return func(w http.ResponseWriter, r *http.Request) {
		content, tag := load()
		switch {
		case compressed && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			w.Header().Set("Content-Encoding", "gzip")
			tag += "-gzip"
		case compressed:
			content = expand(content)
		}
		if compressed {
			w.Header().Set("Vary", "Accept-Encoding")
		}
		w.Header().Set("ETag", `"`+tag+`"`)
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	}
}

func expand(compressed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		panic(fmt.Sprintf("read an embedded file: %v", err)) // it is compiled in
	}
	content, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Sprintf("read an embedded file: %v", err))
	}
	return content
}

// docsPage is the page itself, in the colours that the visitor chose for the other pages.
func docsPage(w http.ResponseWriter, r *http.Request) {
	content, err := docFiles.ReadFile("docs/index.html")
	if err != nil {
		panic(fmt.Sprintf("read embedded index.html: %v", err)) // it is compiled in
	}
	if cookie, err := r.Cookie(themeCookie); err == nil && (cookie.Value == "light" || cookie.Value == "dark") {
		content = bytes.Replace(content, []byte(`data-theme="system"`), []byte(`data-theme="`+cookie.Value+`"`), 1)
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(content) // the client may have disconnected
}

// themeCookie holds the colours that the visitor chose; the pages set it.
const themeCookie = "claudeops_theme"

const description = `Monitor and control Claude Ops. Lists are ` + "`{\"items\": […], \"next_cursor\": …}`" + `: pass the cursor to get the
next page; null means that this is the last page. Errors are problem documents (RFC 9457). Every GET has an ETag. A POST with an
Idempotency-Key can be repeated safely. Requests from another machine need the token; a read-only token allows GET only.`

// describe is the general part of the OpenAPI document.
func describe(version string) huma.Config {
	c := huma.DefaultConfig("Claude Ops", version)
	c.DocsPath = ""    // the built-in page loads files from another host
	c.SchemasPath = "" // and so do links to schemas
	c.OpenAPIPath = "" // served by this package
	c.CreateHooks = nil
	c.Info.Description = description
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "CLAUDEOPS_API_TOKEN, or CLAUDEOPS_API_READ_TOKEN for GET."},
	}
	c.Security = []map[string][]string{{"token": {}}, {}}
	for _, t := range [][2]string{
		{"cycles", "One run from trigger to end."},
		{"sessions", "One agent process: one handler, one model, one set of figures."},
		{"incidents", "Problems that need a human."},
		{"approvals", "Steps of a cycle that wait for approval."},
		{"services", "Watched services and their state."},
		{"actions", "What the supervisor can do to services, and what it did."},
		{"cooldowns", "Rate limits of restarts and redeployments."},
		{"events", "What happened, including an audit record of every action."},
		{"memories", "Notes that later sessions are given."},
		{"trust", "How far agents may go for a service."},
		{"reflexes", "Repairs without an agent that were earned."},
		{"updates", "Newer images of services, watched and taken back if they make things worse."},
		{"changes", "What changed on the hosts."},
		{"silences", "Muted services, groups, probes and alerts."},
		{"notifications", "Messages to people, and whether they were sent."},
		{"costs", "Costs of sessions: list-price estimates, not a bill."},
		{"hosts", "Hosts that share this database."},
		{"guard", "What the guard would say of a command."},
		{"config", "Whether the configuration is valid."},
		{"stats", "Figures for dashboards."},
	} {
		c.Tags = append(c.Tags, &huma.Tag{Name: t[0], Description: t[1]})
	}
	return c
}

// look describes a read.
func look(id, path, summary, tag, text string, errors ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Description: text, Tags: []string{tag}, Errors: errors,
	}
}

// act describes an action.
func act(id, path, summary, tag, text string, errors ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Description: text, Tags: []string{tag},
		MaxBodyBytes: maxBody, Errors: append(errors, http.StatusConflict),
	}
}

// start describes an action whose work continues after the answer.
func start(id, path, summary, tag, text string, errors ...int) huma.Operation {
	o := act(id, path, summary, tag, text, errors...)
	o.DefaultStatus = http.StatusAccepted
	return o
}
