package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// group is an operation on a number of VMs, by all sides.
type group struct {
	op   string
	vms  int
	rows []row
}

func (r rows) groups() (all []group) {
	for _, row := range r {
		i := slices.IndexFunc(all, func(g group) bool { return g.op == row.op && g.vms == row.vms })
		if i < 0 {
			i = len(all)
			all = append(all, group{op: row.op, vms: row.vms})
		}
		all[i].rows = append(all[i].rows, row)
	}
	return all
}

// writeTable prints each group with the verdicts on it.
func writeTable(out io.Writer, r rows) error {
	const form = "  %-14s  %9s %9s %9s  %8s %8s  %9s %9s  %8s %6s  %6s\n"
	if _, err := fmt.Fprintf(out, form+form, "", "CPU in s:", "", "", "wall", "server", "MiB:", "", "", "", "of the",
		"", "provider", "Terraform", "both", "in s", "in s", "provider", "Terraform", "requests", "polls", "bare"); err != nil {
		return err
	}
	for _, g := range r.groups() {
		fmt.Fprintf(out, "%s, %d VMs\n", g.op, g.vms)
		for _, row := range g.rows {
			m := row.median()
			fmt.Fprintf(out, form, row.who, seconds(m.Provider.CPU), seconds(m.Terraform.CPU), seconds(m.both()), seconds(m.Wall),
				seconds(m.Server), mebibytes(m.Provider.RSS), mebibytes(m.Terraform.RSS), count(m.Requests), count(m.Polls), r.ratio(row.key, m))
		}
		for _, v := range r.verdicts(g.op, g.vms) {
			result := "ok"
			if !v.ok() {
				result = "MISSED"
			}
			fmt.Fprintf(out, "    %-44s %10.2f %-3s  at most %g: %s\n", v.what, v.value, v.unit, v.limit, result)
		}
	}
	return nil
}

func (r rows) ratio(k key, m measured) string {
	if value, ok := r.ofBare(k.op, k.vms, m); ok && k.who != whoBare && k.who != whoFloor && k.who != whoLimit {
		return fmt.Sprintf("%.2f", value)
	}
	return ""
}

// The figures as the table has them; one that a side does not have is left out.

func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", d.Seconds())
}

func mebibytes(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n/mib, 10)
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// line is a row for machines: medians of the runs, or, with Target, a verdict.
type line struct {
	Operation    string  `json:"operation"`
	VMs          int     `json:"vms"`
	Who          string  `json:"who"`
	Runs         int     `json:"runs,omitempty"`
	ProviderCPU  float64 `json:"provider_cpu_seconds,omitempty"`
	TerraformCPU float64 `json:"terraform_cpu_seconds,omitempty"`
	Wall         float64 `json:"wall_seconds,omitempty"`
	Server       float64 `json:"server_seconds,omitempty"`
	ProviderRSS  int64   `json:"provider_peak_bytes,omitempty"`
	TerraformRSS int64   `json:"terraform_peak_bytes,omitempty"`
	Requests     int     `json:"requests,omitempty"`
	Polls        int     `json:"polls,omitempty"`
	OfBare       float64 `json:"of_bare,omitempty"`

	Target string  `json:"target,omitempty"`
	Unit   string  `json:"unit,omitempty"`
	Value  float64 `json:"value,omitempty"`
	Limit  float64 `json:"limit,omitempty"`
	OK     *bool   `json:"ok,omitempty"`
}

func writeJSON(out io.Writer, r rows) error {
	encoder := json.NewEncoder(out)
	for _, g := range r.groups() {
		for _, row := range g.rows {
			m := row.median()
			l := line{
				Operation: row.op, VMs: row.vms, Who: row.who, Runs: len(row.runs),
				ProviderCPU: m.Provider.CPU.Seconds(), TerraformCPU: m.Terraform.CPU.Seconds(), Wall: m.Wall.Seconds(), Server: m.Server.Seconds(),
				ProviderRSS: m.Provider.RSS, TerraformRSS: m.Terraform.RSS, Requests: m.Requests, Polls: m.Polls,
			}
			if value, ok := r.ofBare(row.op, row.vms, m); ok && row.who != whoBare && row.who != whoFloor && row.who != whoLimit {
				l.OfBare = value
			}
			if err := encoder.Encode(l); err != nil {
				return err
			}
		}
		for _, v := range r.verdicts(g.op, g.vms) {
			ok := v.ok()
			l := line{Operation: g.op, VMs: g.vms, Who: whoProvider, Target: v.what, Unit: v.unit, Value: v.value, Limit: v.limit, OK: &ok}
			if err := encoder.Encode(l); err != nil {
				return err
			}
		}
	}
	return nil
}
