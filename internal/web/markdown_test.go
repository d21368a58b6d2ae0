package web

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// hostile are texts that try to bring markup, a script or an address of another kind into a page.
var hostile = []string{
	"# Title\n\ntext *em* **strong** ~~gone~~ `code`\n\n- a\n- b\n  1. c\n\n| a | b |\n|:-|-:|\n| 1 | 2 |\n\n> quote\n\n---\n\n```html\n<b>\n```\n",
	"<script>alert(1)</script> **x**", "a\n<img src=x onerror=alert(1)>\nb", "<b onclick=x>*y*</b>", "![alt](http://e.org/x.png \"t\")",
	"[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](java\nscript:alert(1))", "[x](&#106;avascript:alert(1))",
	"[x](data:text/html;base64,PHNjcmlwdD4=)", "[x](vbscript:x)", "[x](//e.org)", "[x](/run)", "[x](?q=1)", "[x](http:e.org)",
	"[x](https://e.org/\"onmouseover=alert(1))", "[x](https://e.org/'><script>)", "[x](<https://e.org/\"><img src=x>>)",
	"[x](https://e.org \"\" onclick=alert(1))", "<https://e.org/\"onx=1>", "<javascript:alert(1)>", "<a@b.org>", "<mailto:a@b.org>",
	"[x][r]\n\n[r]: javascript:alert(1)", "[x][r]\n\n[r]: https://e.org/ '\" onx=\"1'", "[<img src=x>](https://e.org)", "[![a](javascript:x)](https://e.org)",
	"`<script>`", "```\n</code></pre><script>\n```", "    </pre><script>\n", "&lt;script&gt; *x*", "&#60;script&#62; *x*", "\\<script> *x*", "*a\x00b*",
	"<!-- --><script>x</script>*a*", "<![CDATA[<script>]]>*a*", "<?php x ?>*a*", "| <script> |\n|---|\n| <img src=x onerror=y> |",
	"*a* &#x202E;gnp.exe &#27;[2J", "[x](https://e.org/&#x202E;)", "> > > > *a*\n>>> b", "* * *\n***\n_ _ _", "<style>*{}</style>\n*x*",
	"[x](<https://e.org/[redacted: token]?[redacted: token]#[redacted: token]>)", "[a](https://u:p@e.org)", "[redacted: token] *x*", "***a** b* ~~c **d~~ e**", "\u2028*a*", "~~~\"><script>\nx\n~~~", "<svg/onload=x>*", "[x](https://[::1)*",
}

// allowed are the elements that a text of an agent can become, with their attributes.
func allowed() map[string][]string {
	out := map[string][]string{"a": {"href", "rel", "target"}, "mark": {"class"}}
	for _, name := range strings.Fields("p br strong em del code pre blockquote ul ol li hr table thead tbody tr th td") {
		out[name] = nil
	}
	return out
}

func TestMarkdownHoldsOnlyWhatIsAllowed(t *testing.T) {
	m := newMarkdown()
	for _, text := range hostile {
		checkMarkup(t, text, string(m.html(text)))
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	m := newMarkdown()
	f.Fuzz(func(t *testing.T, text string) { checkMarkup(t, text, string(m.html(text))) })
}

// checkMarkup reads what was made of a text as a browser would.
func checkMarkup(t *testing.T, text, out string) {
	t.Helper()
	known := allowed()
	open := 0
	for z := html.NewTokenizer(strings.NewReader(out)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		switch kind {
		case html.TextToken:
			if strings.Contains(token.Data, "\u202e") || strings.Contains(token.Data, "\x1b") {
				t.Errorf("%q became text that hides other text: %q", text, out)
			}
			continue
		case html.StartTagToken, html.EndTagToken:
		default:
			t.Errorf("%q became %s, in %q", text, token, out)
		}
		attributes, ok := known[token.Data]
		if !ok {
			t.Errorf("%q became a %s: %q", text, token.Data, out)
		}
		for _, a := range token.Attr {
			if !slices.Contains(attributes, a.Key) || a.Key == "href" && !leadsAway(a.Val) {
				t.Errorf("%q got %s=%q: %q", text, a.Key, a.Val, out)
			}
		}
		switch {
		case token.Data == "br" || token.Data == "hr":
		case kind == html.StartTagToken:
			open++
		default:
			open--
		}
	}
	if open != 0 {
		t.Errorf("%q leaves elements open: %q", text, out)
	}
}

func leadsAway(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func TestMarkdownKeepsWhatAgentsWrite(t *testing.T) {
	m := newMarkdown()
	for text, want := range map[string]string{
		"a *b* **c** ~~d~~ `e<f`": "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e&lt;f</code></p>\n",
		"one\ntwo":                "<p>one<br>\ntwo</p>\n",
		"## Cause\nIt was full.":  "<p><strong>Cause</strong></p>\n<p>It was full.</p>\n",
		"- a\n- b\n":              "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n",
		"1. a\n\n   b\n":          "<ol>\n<li>\n<p>a</p>\n<p>b</p>\n</li>\n</ol>\n",
		"| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |":        "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n<tr>\n<td>3</td>\n<td>4</td>\n</tr>\n</tbody>\n</table>\n",
		"```go\nx := \"1\"\n```":                            "<pre><code>x := &quot;1&quot;\n</code></pre>\n",
		"> a\n\n---":                                        "<blockquote>\n<p>a</p>\n</blockquote>\n<hr>\n",
		"<https://e.org/a?b=1&c=2>":                         `<p><a href="https://e.org/a?b=1&amp;c=2" rel="nofollow noreferrer noopener" target="_blank">https://e.org/a?b=1&amp;c=2</a></p>` + "\n",
		"[x](/run) [y](javascript:z) ![i](https://e.org/i)": "<p>x y </p>\n",
		"a <b>c</b>":                                        "<p>a c</p>\n",
		"2 \\* 3 &amp; 4 &copy;":                            "<p>2 * 3 &amp; 4 ©</p>\n",
	} {
		if got := string(m.html(text)); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}
