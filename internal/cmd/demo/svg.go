package main

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// The measures of the picture, in pixels and columns.
const (
	columns    = 60 // of one side
	advance    = 7.0
	lineHeight = 16
	margin     = 14
	titleSpace = 34
	gap        = 16
	sideWidth  = columns*advance + 2*margin
)

// line is one line of a terminal, with its class of colour.
type line struct{ class, text string }

// draw makes the picture: the sides beside each other, each a terminal. The same scenes give the same bytes.
func draw(scenes []scene) string {
	sides, height := make([][]line, len(scenes)), 0
	for i, s := range scenes {
		sides[i] = terminal(s)
		height = max(height, len(sides[i]))
	}
	tall := titleSpace + height*lineHeight + margin
	wide := float64(len(scenes))*sideWidth + float64(len(scenes)-1)*gap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%d" viewBox="0 0 %g %d" role="img">`+"\n", wide, tall,
		wide, tall)
	b.WriteString("<title>" + html.EscapeString(alternative(scenes)) + "</title>\n")
	b.WriteString("<style>text { font: 11.6px ui-monospace, SFMono-Regular, Menlo, Consolas, \"DejaVu Sans Mono\", monospace;" +
		" white-space: pre }" +
		" .title { font-weight: bold; fill: #f0f6fc } .plain { fill: #c9d1d9 } .prompt { fill: #79c0ff } .bad { fill: #ff7b72 }" +
		" .good { fill: #7ee787 } .dim { fill: #8b949e }</style>\n")
	for i, side := range sides {
		left := float64(i) * (sideWidth + gap)
		fmt.Fprintf(&b, `<rect x="%g" y="0" width="%g" height="%d" rx="8" fill="#0d1117"/>`+"\n", left, sideWidth, tall)
		write(&b, left+margin, 22, line{"title", scenes[i].Provider})
		for n, l := range side {
			write(&b, left+margin, titleSpace+(n+1)*lineHeight-4, l)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// write puts a line at a place. Its length is given, so that it fits whatever font the reader has.
func write(b *strings.Builder, x float64, y int, l line) {
	if l.text == "" {
		return
	}
	fmt.Fprintf(b, `<text class="%s" x="%g" y="%d" textLength="%g" lengthAdjust="spacingAndGlyphs" xml:space="preserve">%s</text>`+"\n",
		l.class, x, y, float64(utf8.RuneCountInString(l.text))*advance, html.EscapeString(l.text))
}

// terminal is one side: the apply, what it said, and what there is afterwards.
func terminal(s scene) []line {
	lines := []line{{"prompt", "$ terraform apply"}}
	for i, paragraph := range paragraphs(s.Said) {
		class := "plain"
		if i == 0 {
			class = "bad"
		}
		for _, text := range wrap(paragraph, columns) {
			lines = append(lines, line{class, text})
		}
	}
	lines = append(lines, line{}, line{"prompt", "on the server afterwards"})
	lines = append(lines, listed(s.Server, "nothing of it")...)
	lines = append(lines, line{"prompt", "in state"})
	lines = append(lines, listed(s.State, "nothing: the next apply begins afresh")...)
	return append(lines, line{}, line{"dim", "played on the simulated cluster, " + s.Played})
}

func listed(all []string, none string) []line {
	if len(all) == 0 {
		return []line{{"good", "  " + none}}
	}
	var lines []line
	for _, one := range all {
		lines = append(lines, line{"bad", "  " + one})
	}
	return lines
}

// paragraphs takes the line breaks of Terraform's printer out of a text, and keeps those between paragraphs. The place in
// the configuration is left out.
func paragraphs(said string) (all []string) {
	text, last := "", ""
	for _, block := range strings.Split(strings.ReplaceAll(said, "\r", ""), "\n\n") {
		if strings.HasPrefix(strings.TrimSpace(block), "with ") {
			continue
		}
		if len(all) > 0 {
			all = append(all, "")
		}
		for _, l := range strings.Split(block, "\n") {
			l = strings.TrimRight(l, " ")
			word, _, _ := strings.Cut(l, " ")
			if len(last)+1+len(word) > printerWidth { // the printer broke it
				text, last = text+" "+l, l
				continue
			}
			if text != "" {
				all = append(all, text)
			}
			text, last = l, l
		}
		all, text, last = append(all, text), "", ""
	}
	return all
}

// printerWidth is the width at which Terraform breaks lines for no terminal.
const printerWidth = 78

// wrap breaks a text at spaces, and a longer word behind a colon.
func wrap(text string, width int) (lines []string) {
	rest := []rune(text)
	for len(rest) > width {
		at := width
		for at > 0 && rest[at] != ' ' {
			at--
		}
		if at == 0 {
			at = strings.LastIndexByte(string(rest[:width]), ':') + 1
		}
		if at == 0 {
			at = width
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}

// alternative is the picture in a sentence, for readers who do not see it.
func alternative(scenes []scene) string {
	var parts []string
	for _, s := range scenes {
		left := strings.Join(s.Server, ", ")
		if left == "" {
			left = "nothing"
		}
		parts = append(parts, "with "+s.Provider+" "+left+" is left on the server")
	}
	return "A create whose start fails: " + strings.Join(parts, "; ")
}
