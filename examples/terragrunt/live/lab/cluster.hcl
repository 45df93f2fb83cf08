# What the units of one cluster have in common.
locals {
  endpoint = "https://pve1.example.org:8006"
  vmids    = { min = 1000, max = 1999 } # automatic VMIDs come from here
  template = 9000
  storage  = "local-zfs"
  gateway  = "10.0.0.1"
  ssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
}
