locals {
  sizes = ["32G", "100G", "100G"]
}

output "disks" {
  value = zipmap(
    provider::proxmox::slots("scsi", length(local.sizes)), # scsi0, scsi1, scsi2
    [for size in local.sizes : { storage = "local-zfs", size = size }],
  )
}
