// Package tfnode holds the data sources proxmox_node and proxmox_nodes.
package tfnode
