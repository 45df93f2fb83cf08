package shell

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// filter is a program that knows nothing of the cluster. args are without its own name.
type filter func(args []string, in io.Reader, out io.Writer) (status int)

// Filter is the program of that name among those that only read their input and print; nil if it is none.
func Filter(name string) func(args []string, in io.Reader, out io.Writer) int {
	return map[string]filter{
		"id": id, "grep": grep, "cut": cut, "wc": count, "head": head, "tail": tail, "which": which,
	}[name]
}

// flags separates options from arguments. Those in valued have a value, in the same word or in the next one.
func flags(args []string, valued string) (opts map[byte]string, rest []string) {
	opts = map[byte]string{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			continue
		}
		for j := 1; j < len(a); j++ {
			if strings.IndexByte(valued, a[j]) < 0 {
				opts[a[j]] = "1"
				continue
			}
			value := a[j+1:]
			if value == "" && i+1 < len(args) {
				i++
				value = args[i]
			}
			opts[a[j]] = value
			break
		}
	}
	return opts, rest
}

// id is root's.
func id(args []string, _ io.Reader, out io.Writer) int {
	opts, _ := flags(args, "")
	_, name := opts['n']
	switch {
	case name:
		_, _ = fmt.Fprintln(out, "root")
	case opts['u'] != "" || opts['g'] != "":
		_, _ = fmt.Fprintln(out, "0")
	default:
		_, _ = fmt.Fprintln(out, "uid=0(root) gid=0(root) groups=0(root)")
	}
	return 0
}

// lines calls f for each line of the input, until it says that it has enough.
func lines(in io.Reader, f func(line string) (more bool)) {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line != "" && !f(strings.TrimSuffix(line, "\n")) || err != nil {
			_, _ = io.Copy(io.Discard, r) // the writer of a pipe goes on
			return
		}
	}
}

// grep prints the lines with a pattern, or with -v those without it.
func grep(args []string, in io.Reader, out io.Writer) int {
	opts, rest := flags(args, "em")
	pattern, given := opts['e']
	if !given && len(rest) > 0 {
		pattern, rest = rest[0], rest[1:]
	}
	if opts['F'] != "" {
		pattern = regexp.QuoteMeta(pattern)
	}
	if opts['x'] != "" {
		pattern = "^(?:" + pattern + ")$"
	}
	if opts['i'] != "" {
		pattern = "(?i)" + pattern
	}
	match, err := regexp.Compile(pattern)
	if err != nil || len(rest) > 0 { // files are not looked at
		return 2
	}
	found := 0
	lines(in, func(line string) bool {
		if match.MatchString(line) == (opts['v'] != "") {
			return true
		}
		found++
		if opts['q'] == "" && opts['c'] == "" {
			_, _ = fmt.Fprintln(out, line)
		}
		return opts['q'] == ""
	})
	if opts['c'] != "" {
		_, _ = fmt.Fprintln(out, found)
	}
	if found == 0 {
		return 1
	}
	return 0
}

// cut prints one field of each line. A line without the delimiter is printed as it is.
func cut(args []string, in io.Reader, out io.Writer) int {
	opts, _ := flags(args, "df")
	delimiter, field := opts['d'], 0
	if delimiter == "" {
		delimiter = "\t"
	}
	field, err := strconv.Atoi(opts['f'])
	if err != nil || field < 1 {
		return 1
	}
	lines(in, func(line string) bool {
		fields := strings.Split(line, delimiter)
		switch {
		case len(fields) == 1:
		case field <= len(fields):
			line = fields[field-1]
		default:
			line = ""
		}
		_, _ = fmt.Fprintln(out, line)
		return true
	})
	return 0
}

// count is wc of one number.
func count(args []string, in io.Reader, out io.Writer) int {
	opts, _ := flags(args, "")
	data, _ := io.ReadAll(in)
	switch {
	case opts['l'] != "":
		_, _ = fmt.Fprintln(out, strings.Count(string(data), "\n"))
	case opts['w'] != "":
		_, _ = fmt.Fprintln(out, len(strings.Fields(string(data))))
	case opts['c'] != "":
		_, _ = fmt.Fprintln(out, len(data))
	default:
		rows, words := strings.Count(string(data), "\n"), len(strings.Fields(string(data)))
		_, _ = fmt.Fprintf(out, "%7d %7d %7d\n", rows, words, len(data))
	}
	return 0
}

func head(args []string, in io.Reader, out io.Writer) int {
	left := numbered(args)
	lines(in, func(line string) bool {
		if left > 0 {
			_, _ = fmt.Fprintln(out, line)
		}
		left--
		return left > 0
	})
	return 0
}

func tail(args []string, in io.Reader, out io.Writer) int {
	var all []string
	lines(in, func(line string) bool { all = append(all, line); return true })
	for _, line := range all[max(0, len(all)-numbered(args)):] {
		_, _ = fmt.Fprintln(out, line)
	}
	return 0
}

// numbered reads "-n 5" and "-5".
func numbered(args []string) int {
	opts, _ := flags(args, "n")
	for _, a := range append([]string{opts['n']}, args...) {
		if n, err := strconv.Atoi(strings.TrimPrefix(a, "-")); err == nil {
			return n
		}
	}
	return 10
}

// which prints the path of a program of the node.
func which(args []string, _ io.Reader, out io.Writer) int {
	status := 0
	for _, name := range args {
		if Filter(path.Base(name)) == nil && !hasProgram(path.Base(name)) {
			status = 1
			continue
		}
		_, _ = fmt.Fprintln(out, "/usr/bin/"+path.Base(name))
	}
	return status
}

// hasProgram reports whether a tool of that name is simulated.
func hasProgram(name string) bool {
	for words := range tools() {
		if program, _, _ := strings.Cut(words, " "); program == name {
			return true
		}
	}
	return false
}
