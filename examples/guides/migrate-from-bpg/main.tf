terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "ssh_key" {
  description = "Public key of the users."
  type        = string
  default     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"
}

# AmrikSD/Berries: a Talos node on an image, with a TPM. There the image is a file of the content type iso, which the provider copies over
# SSH; here it is one of the content type import.
resource "proxmox_vm" "talos" {
  count = 1

  node        = "pve1"
  vmid        = 400 + count.index
  name        = "talos-k8s-master-${count.index + 1}"
  description = "Managed By Terraform"
  tags        = ["master", "talos", "terraform"]

  ostype    = "l26"
  scsihw    = "virtio-scsi-pci"
  onboot    = true
  cpu       = { type = "x86-64-v2-AES", cores = 2 }
  memory    = { size = 2048, balloon = 0 }
  disks     = { scsi0 = { storage = "local-lvm", import_from = "local:import/disk.qcow2", size = "8G" } }
  networks  = { net0 = { model = "virtio", bridge = "vmbr0" } }
  tpm_state = { storage = "local-lvm", version = "v2.0" }

  on_destroy = { power_off = "force" } # stop_on_destroy
}

# Waji-97/Terraform-Homelab: a clone with a bigger disk, which is not started.
resource "proxmox_vm" "example" {
  node        = "pve1"
  vmid        = 410
  name        = "test-talos"
  clone       = { vmid = 9000, full = true }
  power_state = "stopped" # started = false
  machine     = "q35"
  protection  = false # the template has it

  cpu    = { type = "qemu64", cores = 2 }
  memory = { size = 2048, balloon = 0 }
  disks  = { scsi0 = { size = "20G", iothread = true, ssd = true, discard = true } }
  cloud_init = {
    addresses = { net0 = { ipv4 = "192.168.219.32/24", gateway4 = "192.168.219.1" } }
  }
}

# matandomuertos/koko: a server on a cloud image, with a second disk, of a module with many variables.
locals {
  more_disks = { scsi1 = { storage = "local-zfs", size = "100G", iothread = true } } # there a list of blocks
}

resource "proxmox_vm" "koko" {
  node        = "pve1"
  vmid        = 411
  name        = "koko"
  description = "Managed by OpenTofu"
  tags        = ["home"]

  ostype = "l26"
  scsihw = "virtio-scsi-pci"
  onboot = true
  agent  = { enabled = true }
  cpu    = { type = "x86-64-v2-AES", cores = 2 }
  memory = { size = 2048, balloon = 2048 }
  disks = merge(local.more_disks, {
    scsi0 = { storage = "local-lvm", import_from = "local:import/disk.qcow2", size = "10G", iothread = false }
  })
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = {
    storage     = "local-lvm"
    user        = "koko"
    ssh_keys    = [trimspace(var.ssh_key)]
    addresses   = { net0 = { ipv4 = "192.168.0.102/24", gateway4 = "192.168.0.1" } }
    nameservers = ["192.168.0.1"]
  }
  on_destroy = { power_off = "force" }
}
